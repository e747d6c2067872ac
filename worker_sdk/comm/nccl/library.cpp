// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/library.hpp"

#include "muster/error.hpp"

#include <variant>

namespace muster::nccl {
namespace {

using plugin::find;
using plugin::Missing;
using plugin::open_library;

Library load_libraries() {
  constexpr const char* kNccl[] = {"libnccl.so.2"};
  constexpr const char* kCuda[] = {"libcudart.so.13", "libcudart.so.12"};
  Library api;
  void* const nccl = open_library("MUSTER_NCCL_LIBRARY", kNccl, "NCCL");
  find(nccl, "ncclGetVersion", api.ncclGetVersion);
  if (api.ncclGetVersion(&api.version) != ncclSuccess || api.version < kOldestVersion)
    throw Missing("NCCL " + version_text(api.version) + " is too old; " + version_text(kOldestVersion) +
                  " is the oldest whose communicators can be aborted safely, 2.28.9 or later is recommended");
  void* const cuda = open_library("MUSTER_CUDART_LIBRARY", kCuda, "CUDA's runtime");
#define MUSTER_FIND_NCCL(name, arguments) find(nccl, #name, api.name);
#define MUSTER_FIND_OPTIONAL(name, arguments) find(nccl, #name, api.name, false);
#define MUSTER_FIND_CUDA(name, arguments) find(cuda, #name, api.name);
#define MUSTER_FIND_CUDA_OPTIONAL(name, arguments) find(cuda, #name, api.name, false);
  MUSTER_NCCL_REQUIRED(MUSTER_FIND_NCCL)
  MUSTER_NCCL_OPTIONAL(MUSTER_FIND_OPTIONAL)
  MUSTER_CUDA_REQUIRED(MUSTER_FIND_CUDA)
  MUSTER_CUDA_OPTIONAL(MUSTER_FIND_CUDA_OPTIONAL)
  if (void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
#define MUSTER_FIND_DRIVER(name, arguments) find(driver, #name, api.name);
    MUSTER_DRIVER_CALLS(MUSTER_FIND_DRIVER)
  }
  find(nccl, "ncclGetErrorString", api.ncclGetErrorString);
  find(nccl, "ncclGetLastError", api.ncclGetLastError);
  find(cuda, "cudaGetErrorString", api.cudaGetErrorString);
  return api;
}

}  // namespace

const Library& library() {
  // The library is never unloaded and never changed, because NCCL's own threads live in it.
  static const std::variant<Library, Missing> loaded = plugin::load_or_say_why(load_libraries);
  if (const auto* missing = std::get_if<Missing>(&loaded))
    throw Error(ErrorCode::unsupported, "the nccl backend cannot be used: " + missing->text());
  return std::get<Library>(loaded);
}

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace muster::nccl
