// SPDX-License-Identifier: Apache-2.0
// Libraries of kernels, and launches: the process of the device has the kernels of worker_sdk/nn/gpu
// by their names.
#include "tests/fakes/cuda/device/protocol.hpp"
#include "tests/fakes/cuda/internal.hpp"

#include <cstring>
#include <map>
#include <set>
#include <string>

struct CUlib_st {
  int device = 0;
};

struct CUkern_st {
  cudaLibrary_t library = nullptr;
  std::string name;
  std::uint32_t number = 0;
  std::uint32_t bytes = 0;
};

namespace {

/// The first word of a fat binary.
constexpr std::uint32_t kImageMagic = 0xBA55ED50;

struct Libraries {
  std::mutex mutex;
  std::set<cudaLibrary_t> libraries;
  std::set<cudaKernel_t> kernels;
};

Libraries& libraries() {
  static Libraries* const all = new Libraries;
  return *all;
}

}  // namespace

extern "C" {

FAKE_EXPORT cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* image, cudaJitOption*, void**,
                                            unsigned, cudaLibraryOption*, void**, unsigned) {
  if (fake::breaks_capture("cudaLibraryLoadData")) return fake::say(cudaErrorStreamCaptureUnsupported);
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof(magic));
  if (magic != kImageMagic) return fake::say(cudaErrorInvalidKernelImage);
  const cudaError_t started = fake::start_device(fake::current_device());
  if (started != cudaSuccess) return fake::say(started);
  *library = new CUlib_st{fake::current_device()};
  const std::lock_guard lock(libraries().mutex);
  libraries().libraries.insert(*library);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  const std::lock_guard lock(libraries().mutex);
  if (libraries().libraries.erase(library) == 0) return fake::say(cudaErrorInvalidResourceHandle);
  std::erase_if(libraries().kernels, [library](cudaKernel_t kernel) {
    const bool own = kernel->library == library;
    if (own) delete kernel;
    return own;
  });
  delete library;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  const std::lock_guard lock(libraries().mutex);
  if (!libraries().libraries.contains(library)) return fake::say(cudaErrorInvalidResourceHandle);
  fake::Request request(fake::Order::find_kernel);
  if (std::strlen(name) >= sizeof(request.name)) return fake::say(cudaErrorSymbolNotFound);
  std::strcpy(request.name, name);
  fake::Answer answer;
  const cudaError_t found = fake::ask_device(library->device, request, answer);
  if (found != cudaSuccess) return fake::say(found);
  *kernel = new CUkern_st{library, name, answer.kernel, answer.bytes};
  libraries().kernels.insert(*kernel);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                         std::size_t, cudaStream_t stream) {
  const int device = fake::current_device();
  if (fake::device_of(stream) != device) return fake::say(cudaErrorInvalidResourceHandle);
  if (fake::trouble(device) != cudaSuccess) return fake::say(fake::trouble(device));
  if (grid.x == 0 || grid.y != 1 || grid.z != 1 || block.x == 0 || block.y != 1 || block.z != 1)
    return fake::say(cudaErrorInvalidConfiguration);
  fake::Request request(fake::Order::launch);
  std::string name;
  {
    const std::lock_guard lock(libraries().mutex);
    auto* const kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
    if (!libraries().kernels.contains(kernel)) return fake::say(cudaErrorInvalidDeviceFunction);
    request.kernel = kernel->number;
    name = kernel->name;
    std::memcpy(request.argument, arguments[0], kernel->bytes);
  }
  request.blocks = grid.x;
  request.threads = block.x;
  if (const cudaError_t fault = fake::fault_at(name, device, fake::Moment::call); fault != cudaSuccess)
    return fake::say(fault);
  fake::enqueue(stream, [device, request, name] {
    return [device, request, name] {
      const cudaError_t fault = fake::fault_at(name, device, fake::Moment::execution);
      if (fault != cudaSuccess) fake::lose_device(device, fault);
      (void)fake::ask_device(device, request);
    };
  });
  return cudaSuccess;
}

}  // extern "C"
