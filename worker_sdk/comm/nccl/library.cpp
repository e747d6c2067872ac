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
  Library api;
  void* const nccl = open_library("MUSTER_NCCL_LIBRARY", "libnccl.so.2", plugin::kNcclPackage);
  find(nccl, "ncclGetVersion", api.ncclGetVersion);
  if (api.ncclGetVersion(&api.version) != ncclSuccess || api.version < kOldestVersion)
    throw Missing("NCCL " + version_text(api.version) + " is too old; " + version_text(kOldestVersion) +
                  " is the oldest whose communicators can be aborted safely, 2.28.9 or later is recommended");
  plugin::load_driver(api);
#define MUSTER_FIND_NCCL(name, arguments) find(nccl, #name, api.name);
#define MUSTER_FIND_OPTIONAL(name, arguments) find(nccl, #name, api.name, false);
  MUSTER_NCCL_REQUIRED(MUSTER_FIND_NCCL)
  MUSTER_NCCL_OPTIONAL(MUSTER_FIND_OPTIONAL)
  find(nccl, "ncclGetErrorString", api.ncclGetErrorString);
  find(nccl, "ncclGetLastError", api.ncclGetLastError);
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
