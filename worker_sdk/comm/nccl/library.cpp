// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/library.hpp"

#include "muster/error.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <span>
#include <string_view>
#include <variant>

namespace muster::nccl {
namespace {

class Missing {
 public:
  explicit Missing(std::string text) : text_(std::move(text)) {}

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// A library that the program has loaded already wins: its CUDA context is the one to share.
void* open_first(const char* variable, std::span<const char* const> names) {
  // Read once, before any of our threads exists.
  const char* const chosen = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (chosen != nullptr && *chosen != '\0') {
    void* const handle = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* const reason = dlerror();
      throw Missing(std::string(variable) + " names '" + chosen +
                    "', which cannot be loaded: " + (reason != nullptr ? reason : "no reason given"));
    }
    return handle;
  }
  for (const char* const name : names)
    if (void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return handle;
  std::string reasons;
  for (const char* const name : names) {
    if (void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
    const char* const reason = dlerror();
    reasons += (reasons.empty() ? "" : "; ") + std::string(reason != nullptr ? reason : name);
  }
  throw Missing("no " + std::string(names.front()) + " was found (" + reasons + "); install it, or set " +
                variable + " to its path");
}

template <typename Function>
void find(void* handle, const char* name, Function& function, bool required) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr && required)
    throw Missing("the library has no function " + std::string(name) +
                  "; it is too old or not what its name says");
}

Library load() {
  constexpr const char* kNccl[] = {"libnccl.so.2"};
  constexpr const char* kCuda[] = {"libcudart.so.13", "libcudart.so.12"};
  Library api;
  void* const nccl = open_first("MUSTER_NCCL_LIBRARY", kNccl);
  find(nccl, "ncclGetVersion", api.ncclGetVersion, true);
  if (api.ncclGetVersion(&api.version) != ncclSuccess || api.version < kOldestVersion)
    throw Missing("NCCL " + version_text(api.version) + " is too old; " + version_text(kOldestVersion) +
                  " is the oldest whose communicators can be aborted safely, 2.28.9 or later is recommended");
  void* const cuda = open_first("MUSTER_CUDART_LIBRARY", kCuda);
#define MUSTER_FIND_NCCL(name, arguments) find(nccl, #name, api.name, true);
#define MUSTER_FIND_OPTIONAL(name, arguments) find(nccl, #name, api.name, false);
#define MUSTER_FIND_CUDA(name, arguments) find(cuda, #name, api.name, true);
#define MUSTER_FIND_CUDA_OPTIONAL(name, arguments) find(cuda, #name, api.name, false);
  MUSTER_NCCL_REQUIRED(MUSTER_FIND_NCCL)
  MUSTER_NCCL_OPTIONAL(MUSTER_FIND_OPTIONAL)
  MUSTER_CUDA_REQUIRED(MUSTER_FIND_CUDA)
  MUSTER_CUDA_OPTIONAL(MUSTER_FIND_CUDA_OPTIONAL)
  find(nccl, "ncclGetErrorString", api.ncclGetErrorString, true);
  find(nccl, "ncclGetLastError", api.ncclGetLastError, true);
  find(cuda, "cudaGetErrorString", api.cudaGetErrorString, true);
  return api;
}

std::variant<Library, Missing> load_or_say_why() {
  try {
    return load();
  } catch (const Missing& missing) {
    return missing;
  }
}

/// What to do about an error of the runtime; "" where its text says enough.
std::string_view advice(cudaError_t result) {
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

}  // namespace

const Library& library() {
  // Never unloaded and never changed: NCCL's own threads live in it.
  static const std::variant<Library, Missing> loaded = load_or_say_why();
  if (const auto* missing = std::get_if<Missing>(&loaded))
    throw Error(ErrorCode::unsupported, "the nccl backend cannot be used: " + missing->text());
  return std::get<Library>(loaded);
}

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

void check(const Library& api, cudaError_t result, const std::string& what) {
  if (result == cudaSuccess) return;
  (void)api.cudaGetLastError();  // so that no later call reports it again
  ErrorCode code = ErrorCode::backend;
  if (result == cudaErrorMemoryAllocation) code = ErrorCode::out_of_memory;
  if (result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver) code = ErrorCode::unsupported;
  throw Error(code, what + " failed: CUDA error " + std::to_string(static_cast<int>(result)) + ", " +
                        api.cudaGetErrorString(result) + std::string(advice(result)));
}

}  // namespace muster::nccl
