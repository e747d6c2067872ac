// SPDX-License-Identifier: Apache-2.0
// What we use of NVML, NVIDIA's library of management, which is loaded at run time. For sources that call it.
#pragma once

#include <dlfcn.h>

#include <memory>

namespace muster::agent::nvml {

inline constexpr const char* kLibrary = "libnvidia-ml.so.1";
inline constexpr int kSuccess = 0;

using Device = void*;
using InitFunction = int (*)();
using CountFunction = int (*)(unsigned*);
using HandleFunction = int (*)(unsigned, Device*);

/// Loads the library, which is found as every shared library is; null if there is none.
using Library = std::unique_ptr<void, int (*)(void*)>;

inline Library load() {
  return {::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL), ::dlclose};
}

/// A function of the library; null if it has none of that name.
template <typename Function>
Function symbol(const Library& library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library.get(), name));
}

}  // namespace muster::agent::nvml
