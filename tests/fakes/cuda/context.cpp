// SPDX-License-Identifier: Apache-2.0
// Contexts: one for each device, which stays once it is made, and a stack of them for each thread
// (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html).
#include "tests/fakes/cuda/internal.hpp"

#include <array>
#include <atomic>

namespace {

/// By device; what is current on this thread is the last. Nothing has to be destroyed, since programs call
/// the driver up to their end.
thread_local std::array<int, 64> stack{};
thread_local std::size_t depth = 0;
std::atomic<std::uint64_t> contexts{0};  ///< a bit for each device

bool has_context(int device) {
  return device >= 0 && device < 64 && (contexts.load() >> static_cast<unsigned>(device) & 1U) != 0;
}

/// Contexts are numbered from 1, devices from 0.
CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(device) + 1);
}

/// The device of a context, or -1 if there is no such context.
int device_of(CUcontext context) {
  const auto number = reinterpret_cast<std::uintptr_t>(context);
  if (number == 0 || number > 64) return -1;
  const int device = static_cast<int>(number) - 1;
  return has_context(device) ? device : -1;
}

bool is_device(int device) {
  return device >= 0 && device < fake::device_count();
}

}  // namespace

namespace fake {

int current_device() {
  return depth == 0 ? -1 : stack[depth - 1];
}

CUresult require_context(int& device) {
  device = -1;
  if (const CUresult started = require_driver(); started != CUDA_SUCCESS) return started;
  device = current_device();
  return device < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

}  // namespace fake

extern "C" {

FAKE_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const CUresult started = fake::require_driver(); started != CUDA_SUCCESS) return started;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  contexts.fetch_or(std::uint64_t{1} << static_cast<unsigned>(device));
  *context = context_of(device);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (const CUresult started = fake::require_driver(); started != CUDA_SUCCESS) return started;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = has_context(device) ? 1 : 0;
  return CUDA_SUCCESS;
}

/// Takes the place of what is current; null takes that away.
FAKE_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  if (const CUresult started = fake::require_driver(); started != CUDA_SUCCESS) return started;
  const int device = device_of(context);
  if (context != nullptr && device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (depth > 0) --depth;
  if (context != nullptr) stack[depth++] = device;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  if (const CUresult started = fake::require_driver(); started != CUDA_SUCCESS) return started;
  *context = depth == 0 ? nullptr : context_of(fake::current_device());
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxPushCurrent(CUcontext context) {
  if (const CUresult started = fake::require_driver(); started != CUDA_SUCCESS) return started;
  const int device = device_of(context);
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (depth == stack.size()) return CUDA_ERROR_OUT_OF_MEMORY;
  stack[depth++] = device;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxPopCurrent(CUcontext* context) {
  int device = -1;
  if (const CUresult found = fake::require_context(device); found != CUDA_SUCCESS) return found;
  --depth;
  if (context != nullptr) *context = context_of(device);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  return fake::require_context(*device);
}

FAKE_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  int device = -1;
  if (const CUresult found = fake::require_context(device); found != CUDA_SUCCESS) return found;
  *least = fake::kLeastPriority;
  *greatest = fake::kGreatestPriority;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxSynchronize() {
  int device = -1;
  if (const CUresult found = fake::require_context(device); found != CUDA_SUCCESS) return found;
  if (fake::breaks_capture("cuCtxSynchronize")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  fake::drain_device(device);
  return fake::trouble(device);
}

}  // extern "C"
