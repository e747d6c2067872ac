// SPDX-License-Identifier: Apache-2.0
// Lets plug-ins use NVIDIA's libraries as tables of function pointers, loaded when the plug-in is first used.
// The plug-ins do not link the libraries, so they can be installed anywhere, and tests put fakes in the
// libraries' place.
#pragma once

#include "muster/error.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <variant>

namespace muster::plugin {

/// Never called: gives the type of a function that is declared with just these arguments. Some names are
/// overloaded in C++.
template <typename Function>
Function* declared(Function* function);

/// The reason why a library cannot be used.
class Missing {
 public:
  explicit Missing(std::string text) : text_(std::move(text)) {}

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Opens the first of `names` that can be loaded; a library that the program has loaded already wins, because
/// its CUDA context is the one to share. The environment's `variable` names another file. Throws Missing,
/// which says to install `package`.
inline void* open_library(const char* variable, std::span<const char* const> names, const char* package) {
  const auto reason = [](const char* otherwise) {
    const char* const text = dlerror();
    return std::string(text != nullptr ? text : otherwise);
  };
  // The variable is read once, before any of our threads exists.
  const char* const chosen = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (chosen != nullptr && *chosen != '\0') {
    if (void* const handle = dlopen(chosen, RTLD_NOW | RTLD_LOCAL)) return handle;
    throw Missing(std::string(variable) + " names '" + chosen +
                  "', which cannot be loaded: " + reason("no reason given"));
  }
  for (const char* const name : names)
    if (void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return handle;
  std::string reasons;
  for (const char* const name : names) {
    if (void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
    reasons += (reasons.empty() ? "" : "; ") + reason(name);
  }
  throw Missing("no " + std::string(names.front()) + " was found (" + reasons + "); install " + package +
                ", or set " + variable + " to its path");
}

/// Finds a function of the library. If the library lacks it, the result is null, or Missing is thrown if the
/// function is `required`.
template <typename Function>
void find(void* handle, const char* name, Function& function, bool required = true) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr && required)
    throw Missing("the library has no function " + std::string(name) +
                  "; it is too old or not what its name says");
}

/// The device of a local rank, of `count` that the process sees: the one with its number, or the only one
/// that CUDA_VISIBLE_DEVICES shows.
inline int device_of(int local_rank, int count) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe)
  return count == 1 && visible != nullptr && *visible != '\0' ? 0 : local_rank;
}

/// The library that `load` gives, or the text about what is missing.
template <typename Library>
std::variant<Library, Missing> load_or_say_why(Library (*load)()) {
  try {
    return load();
  } catch (const Missing& missing) {
    return missing;
  }
}

/// The advice about an error of the runtime; "" if its own text says enough.
inline const char* advice(cudaError_t result) {
  switch (result) {
    case cudaErrorInsufficientDriver:
      return "; without a GPU use another backend, else update NVIDIA's driver, or let MUSTER_CUDART_LIBRARY "
             "name a runtime of its version";
    case cudaErrorDevicesUnavailable:
      return "; another process has the GPU to itself (compute mode, which `nvidia-smi -q -d COMPUTE` "
             "shows): "
             "end it, or set the mode to DEFAULT";
    case cudaErrorMemoryAllocation:
      return "; `nvidia-smi` lists who holds memory of the GPU";
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return "; the GPU or a kernel on it has failed, and this process cannot use it any more: the kernel's "
             "log "
             "(`dmesg | grep Xid`) says what happened, `nvidia-smi` whether the GPU still answers";
    default:
      return "";
  }
}

/// Throws Error (unsupported, out_of_memory or backend), which says what to do next, unless `result` is
/// cudaSuccess. `what` names the attempt: "cudaMalloc of 5 bytes on device 1".
template <typename Library>
void check(const Library& api, cudaError_t result, const std::string& what) {
  if (result == cudaSuccess) return;
  (void)api.cudaGetLastError();  // cleared, so that no later call reports the error again
  ErrorCode code = ErrorCode::backend;
  if (result == cudaErrorMemoryAllocation) code = ErrorCode::out_of_memory;
  if (result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver) code = ErrorCode::unsupported;
  throw Error(code, what + " failed: CUDA error " + std::to_string(static_cast<int>(result)) + ", " +
                        api.cudaGetErrorString(result) + advice(result));
}

}  // namespace muster::plugin
