// SPDX-License-Identifier: Apache-2.0
// Modules of kernels, and launches: the process of the device has the kernels of worker_sdk/nn/gpu
// by their names.
#include "tests/fakes/cuda/device/protocol.hpp"
#include "tests/fakes/cuda/internal.hpp"

#include <cstring>
#include <set>
#include <string>

struct CUmod_st {
  int device = 0;
};

struct CUfunc_st {
  CUmodule module = nullptr;
  std::string name;
  std::uint32_t number = 0;
  std::uint32_t bytes = 0;
};

namespace {

struct Modules {
  std::mutex mutex;
  std::set<CUmodule> modules;
  std::set<CUfunction> functions;
};

Modules& modules() {
  static Modules* const all = new Modules;
  return *all;
}

/// An error unless it is one of the current device. The mutex is held.
CUresult require_module(CUmodule module) {
  int device = -1;
  if (const CUresult found = fake::require_context(device); found != CUDA_SUCCESS) return found;
  const bool is_there = modules().modules.contains(module) && module->device == device;
  return is_there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/// Fills in what a launch of this function on the current device is.
CUresult describe_launch(CUfunction function, int device, void** arguments, fake::Request& request,
                         std::string& name) {
  const std::lock_guard lock(modules().mutex);
  if (!modules().functions.contains(function) || function->module->device != device)
    return CUDA_ERROR_INVALID_HANDLE;
  request.kernel = function->number;
  name = function->name;
  std::memcpy(request.argument, arguments[0], function->bytes);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

/// The module belongs to the device whose context is current.
FAKE_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  int device = -1;
  if (const CUresult found = fake::require_context(device); found != CUDA_SUCCESS) return found;
  if (fake::breaks_capture("cuModuleLoadData")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult judged =
      fake::judge_image(fake::part_to_judge(image), fake::device_capability(), fake::driver_version());
  if (judged != CUDA_SUCCESS) return judged;
  if (const CUresult started = fake::start_device(device); started != CUDA_SUCCESS) return started;
  *module = new CUmod_st{device};
  const std::lock_guard lock(modules().mutex);
  modules().modules.insert(*module);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuModuleUnload(CUmodule module) {
  const std::lock_guard lock(modules().mutex);
  if (const CUresult found = require_module(module); found != CUDA_SUCCESS) return found;
  modules().modules.erase(module);
  std::erase_if(modules().functions, [module](CUfunction function) {
    const bool own = function->module == module;
    if (own) delete function;
    return own;
  });
  delete module;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const std::lock_guard lock(modules().mutex);
  if (const CUresult found = require_module(module); found != CUDA_SUCCESS) return found;
  fake::Request request(fake::Order::find_kernel);
  if (std::strlen(name) >= sizeof(request.name)) return CUDA_ERROR_NOT_FOUND;
  std::strcpy(request.name, name);
  fake::Answer answer;
  const CUresult found = fake::ask_device(module->device, request, answer);
  if (found != CUDA_SUCCESS) return found;
  *function = new CUfunc_st{module, name, answer.kernel, answer.bytes};
  modules().functions.insert(*function);
  return CUDA_SUCCESS;
}

/// Grids and blocks of one dimension alone, as the product has them.
FAKE_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                    unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                                    CUstream stream, void** arguments, void** extra) {
  CUstream_st* own = nullptr;
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  const int device = fake::current_device();
  if (own->device != device) return CUDA_ERROR_INVALID_HANDLE;
  if (fake::trouble(device) != CUDA_SUCCESS) return fake::trouble(device);
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_y != 1 || block_z != 1 ||
      extra != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  fake::Request request(fake::Order::launch);
  std::string name;
  const CUresult described = describe_launch(function, device, arguments, request, name);
  if (described != CUDA_SUCCESS) return described;
  request.blocks = grid_x;
  request.threads = block_x;
  const CUresult fault = fake::fault_at(name, device, fake::Moment::call);
  if (fault != CUDA_SUCCESS) return fault;
  fake::enqueue(stream, [device, request, name] {
    return [device, request, name] {
      const CUresult late = fake::fault_at(name, device, fake::Moment::execution);
      if (late != CUDA_SUCCESS) fake::lose_device(device, late);
      (void)fake::ask_device(device, request);
    };
  });
  return CUDA_SUCCESS;
}

}  // extern "C"
