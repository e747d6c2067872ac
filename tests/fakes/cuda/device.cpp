// SPDX-License-Identifier: Apache-2.0
// Devices, versions, errors, and the record of broken rules.
#include "tests/fakes/cuda/internal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

thread_local int chosen_device = 0;
/// What the driver has made current meanwhile.
thread_local std::vector<int> pushed_devices;
std::atomic<std::uint64_t> contexts{0};  ///< a bit for each device
thread_local cudaError_t last_error = cudaSuccess;

int number(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

bool has_driver() {
  const char* const text = std::getenv("FAKE_CUDA_DEVICES");
  return text == nullptr || std::strcmp(text, "nodriver") != 0;
}

int devices() {
  return has_driver() ? number("FAKE_CUDA_DEVICES", 8) : 0;
}

int driver() {
  return has_driver() ? number("FAKE_CUDA_DRIVER", 13000) : 0;
}

int capability() {
  return number("FAKE_CUDA_CAPABILITY", 90);
}

bool is_device(int device) {
  return device >= 0 && device < devices();
}

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

int current_device() {
  const int device = pushed_devices.empty() ? chosen_device : pushed_devices.back();
  make_context(device);
  return device;
}

void make_context(int device) {
  contexts.fetch_or(std::uint64_t{1} << static_cast<unsigned>(device));
}

bool has_context(int device) {
  return (contexts.load() >> static_cast<unsigned>(device) & 1U) != 0;
}

void push_device(int device) {
  pushed_devices.push_back(device);
}

int pop_device() {
  if (pushed_devices.empty()) return -1;
  const int device = pushed_devices.back();
  pushed_devices.pop_back();
  return device;
}

std::string bus_id(int device) {
  char text[32];
  std::snprintf(text, sizeof(text), "0000:%02X:00.0", static_cast<unsigned>(device) + 0x10U);
  return text;
}

cudaError_t say(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

}  // namespace fake

extern "C" {

FAKE_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = number("FAKE_CUDA_RUNTIME", CUDART_VERSION);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver();
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (driver() / 1000 < CUDART_VERSION / 1000) return fake::say(cudaErrorInsufficientDriver);
  *count = devices();
  return fake::say(devices() == 0 ? cudaErrorNoDevice : cudaSuccess);
}

FAKE_EXPORT cudaError_t cudaGetDevice(int* device) {
  *device = pushed_devices.empty() ? chosen_device : pushed_devices.back();
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return fake::say(cudaErrorInvalidDevice);
  (pushed_devices.empty() ? chosen_device : pushed_devices.back()) = device;
  fake::make_context(device);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return fake::say(cudaErrorInvalidDevice);
  std::memset(properties, 0, sizeof(*properties));
  std::snprintf(properties->name, sizeof(properties->name), "Fake of a GPU");
  properties->major = capability() / 10;
  properties->minor = capability() % 10;
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!is_device(device)) return fake::say(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = capability() / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = capability() % 10;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = 4;
      return cudaSuccess;
    case cudaDevAttrComputeMode:
      *value = cudaComputeModeDefault;
      return cudaSuccess;
    default:
      return fake::say(cudaErrorInvalidValue);
  }
}

FAKE_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  if (!is_device(device)) return fake::say(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(bytes), "%s", fake::bus_id(device).c_str());
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaDeviceSynchronize() {
  if (fake::breaks_capture("cudaDeviceSynchronize")) return fake::say(cudaErrorStreamCaptureUnsupported);
  const int device = fake::current_device();
  fake::drain_device(device);
  return fake::say(fake::trouble(device));
}

FAKE_EXPORT cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

FAKE_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorECCUncorrectable:
      return "uncorrectable ECC error encountered";
    case cudaErrorUnknown:
      return "unknown error";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default:
      return "an error of the fake runtime";
  }
}

}  // extern "C"
