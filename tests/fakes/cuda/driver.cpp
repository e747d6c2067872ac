// SPDX-License-Identifier: Apache-2.0
// The driver's own library, as far as contexts go: what it makes current on a thread is where the runtime's
// calls go (https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DRIVER.html).
#include "tests/fakes/cuda/fake_cuda.hpp"

#include <cuda.h>

#include <cstdint>

namespace {

/// Contexts are numbered from 1, devices from 0.
CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(device) + 1);
}

int device_of(CUcontext context) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
}

bool is_device(int device) {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && device >= 0 && device < count;
}

}  // namespace

extern "C" {

FAKE_EXPORT CUresult cuInit(unsigned) {
  int count = 0;
  return static_cast<CUresult>(cudaGetDeviceCount(&count));
}

FAKE_EXPORT CUresult cuDeviceGet(CUdevice* device, int number) {
  *device = number;
  return is_device(number) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  fake::make_context(device);
  *context = context_of(device);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = fake::has_context(device) ? 1 : 0;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxPushCurrent(CUcontext context) {
  if (context == nullptr || !fake::has_context(device_of(context))) return CUDA_ERROR_INVALID_CONTEXT;
  fake::push_device(device_of(context));
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxPopCurrent(CUcontext* context) {
  const int device = fake::pop_device();
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  *context = context_of(device);
  return CUDA_SUCCESS;
}

}  // extern "C"
