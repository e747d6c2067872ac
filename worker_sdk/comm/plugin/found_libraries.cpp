// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/plugin/found_libraries.hpp"

#include "worker_sdk/comm/plugin/nvidia_library.hpp"

#include <cstddef>

namespace muster::plugin {
namespace {

/// "9.19.0" for 91900 where the major version is counted in 10,000, "13.0" for 13000 where it is counted in
/// 1,000.
std::string dotted(std::size_t version, std::size_t major) {
  if (version == 0) return "";
  const std::string text = std::to_string(version / major) + ".";
  if (major == 1000) return text + std::to_string(version % 1000 / 10);
  return text + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
}

/// Opens a library and has `ask` fill in what it says of itself.
template <typename Ask>
FoundLibrary find_one(const char* name, const char* variable, const char* file, const char* package,
                      bool in_packages, const Ask& ask) {
  FoundLibrary found{.name = name, .version = "", .cuda = "", .path = "", .reason_against = ""};
  try {
    void* const library = open_library(variable, file, package, in_packages);
    ask(library, found);
    found.path = path_of(library);
  } catch (const Missing& missing) {
    found.reason_against = missing.text();
  }
  return found;
}

/// A version that a call of type int(int*) gives; 0 where it fails.
std::size_t asked(void* library, const char* call) {
  int (*get)(int*) = nullptr;
  find(library, call, get);
  int version = 0;
  return get(&version) == 0 && version > 0 ? static_cast<std::size_t>(version) : 0;
}

}  // namespace

FoundLibrary find_driver() {
  return find_one("driver", "MUSTER_CUDA_DRIVER_LIBRARY", "libcuda.so.1", kDriverPackage, false,
                  [](void* library, FoundLibrary& found) {
                    found.version = dotted(asked(library, "cuDriverGetVersion"), 1000);
                  });
}

FoundLibrary find_cudnn() {
  return find_one("cuDNN", "MUSTER_CUDNN_LIBRARY", "libcudnn.so.9", kCudnnPackage, true,
                  [](void* library, FoundLibrary& found) {
                    std::size_t (*version)() = nullptr;
                    std::size_t (*made_for)() = nullptr;
                    find(library, "cudnnGetVersion", version);
                    find(library, "cudnnGetCudartVersion", made_for);
                    found.version = dotted(version(), 10'000);
                    found.cuda = dotted(made_for(), 1000);
                  });
}

FoundLibrary find_nccl() {
  return find_one("NCCL", "MUSTER_NCCL_LIBRARY", "libnccl.so.2", kNcclPackage, true,
                  [](void* library, FoundLibrary& found) {
                    found.version = dotted(asked(library, "ncclGetVersion"), 10'000);
                  });
}

std::vector<FoundLibrary> find_libraries() {
  return {find_driver(), find_cudnn(), find_nccl()};
}

}  // namespace muster::plugin
