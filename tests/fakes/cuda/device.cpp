// SPDX-License-Identifier: Apache-2.0
// The start of the driver, devices, versions, texts of errors, and the record of broken rules.
#include "tests/fakes/cuda/internal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace {

std::atomic<bool> is_started{false};

int number(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

bool is_mismatched() {
  const char* const text = std::getenv("FAKE_CUDA_DEVICES");
  return text != nullptr && std::strcmp(text, "mismatch") == 0;
}

/// An error before cuInit(), and for a device that is not there.
CUresult require_device(CUdevice device) {
  if (const CUresult result = fake::require_driver(); result != CUDA_SUCCESS) return result;
  return device >= 0 && device < fake::device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

void copy_text(char* to, int room, const std::string& text) {
  std::snprintf(to, static_cast<std::size_t>(std::max(room, 0)), "%s", text.c_str());
}

struct ErrorText {
  CUresult error;
  const char* text;
};

/// In the words of the real driver.
constexpr ErrorText kErrorTexts[] = {
    {CUDA_SUCCESS, "no error"},
    {CUDA_ERROR_INVALID_VALUE, "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"},
    {CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"},
    {CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, "uncorrectable NVLink error detected during the execution"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."},
    {CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"},
    {CUDA_ERROR_NOT_FOUND, "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"},
    {CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "operation not supported"},
    {CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver combination"},
    {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "forward compatibility was attempted on non supported HW"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_MERGE, "capture would result in a merge of separate capture sequences"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture was not initiated in this stream"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"},
    {CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"},
    {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
     "attempt to terminate a thread-local capture sequence from another thread"},
    {CUDA_ERROR_UNKNOWN, "unknown error"},
};

}  // namespace

namespace fake {

std::string folder() {
  const char* const path = std::getenv("FAKE_GPU_DIR");
  if (path != nullptr) return path;
  std::fputs("the fakes of CUDA and NCCL need FAKE_GPU_DIR\n", stderr);
  std::abort();
}

void violate(const char* rule, const std::string& what) {
  const std::string line = std::string(rule) + ": " + what + "\n";
  const int fd = open((folder() + "/violations").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) std::abort();
  if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  close(fd);
}

std::string bus_id(int device) {
  char text[32];
  std::snprintf(text, sizeof(text), "0000:%02X:00.0", static_cast<unsigned>(device) + 0x10U);
  return text;
}

int device_count() {
  return is_mismatched() ? 0 : number("FAKE_CUDA_DEVICES", 8);
}

int driver_version() {
  return number("FAKE_CUDA_DRIVER", 13000);
}

int device_capability() {
  return number("FAKE_CUDA_CAPABILITY", 90);
}

CUresult require_driver() {
  return is_started ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

}  // namespace fake

extern "C" {

/// Looks at the environment in every call: tests change it in the life of a process.
FAKE_EXPORT CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (is_mismatched()) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  if (fake::device_count() <= 0) return CUDA_ERROR_NO_DEVICE;
  is_started = true;
  return CUDA_SUCCESS;
}

/// Needs no cuInit().
FAKE_EXPORT CUresult cuDriverGetVersion(int* version) {
  *version = fake::driver_version();
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGetCount(int* count) {
  *count = 0;
  if (const CUresult result = fake::require_driver(); result != CUDA_SUCCESS) return result;
  *count = fake::device_count();
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return require_device(ordinal);
}

FAKE_EXPORT CUresult cuDeviceGetName(char* name, int room, CUdevice device) {
  if (const CUresult result = require_device(device); result != CUDA_SUCCESS) return result;
  copy_text(name, room, "Fake of a GPU");
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGetPCIBusId(char* text, int room, CUdevice device) {
  if (const CUresult result = require_device(device); result != CUDA_SUCCESS) return result;
  copy_text(text, room, fake::bus_id(device));
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (const CUresult result = require_device(device); result != CUDA_SUCCESS) return result;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = fake::device_capability() / 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = fake::device_capability() % 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 4;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
      *value = CU_COMPUTEMODE_DEFAULT;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

/// Needs no cuInit().
FAKE_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  const auto* const found = std::find_if(std::begin(kErrorTexts), std::end(kErrorTexts),
                                         [error](const ErrorText& each) { return each.error == error; });
  *text = found == std::end(kErrorTexts) ? nullptr : found->text;
  return found == std::end(kErrorTexts) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // extern "C"
