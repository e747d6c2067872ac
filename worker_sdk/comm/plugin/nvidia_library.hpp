// SPDX-License-Identifier: Apache-2.0
// Lets plug-ins use NVIDIA's libraries as tables of function pointers, loaded when the plug-in is first used.
// The plug-ins do not link the libraries, so they can be installed anywhere, and tests put fakes in the
// libraries' place.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
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

/// What to install where a library is missing.
inline constexpr const char* kDriverPackage = "NVIDIA's driver, to which it belongs";
inline constexpr const char* kCudnnPackage =
    "cuDNN 9 (pip install nvidia-cudnn-cu12, or nvidia-cudnn-cu13 with a driver of 580 or later)";
inline constexpr const char* kNcclPackage =
    "NCCL (pip install nvidia-nccl-cu12, or nvidia-nccl-cu13 with a driver of 580 or later)";

/// Where libraries are looked for, as the environment of a program says.
struct LibraryPlaces {
  std::string library_path;  ///< LD_LIBRARY_PATH
  std::string virtual_env;   ///< VIRTUAL_ENV
  std::string conda_prefix;  ///< CONDA_PREFIX
  std::string path;          ///< PATH, for the Python that a user would start
  std::string home;          ///< HOME
  std::string own_library;   ///< path of the object that looks, which may lie in a Python's packages itself
};

/// Those of this process.
LibraryPlaces library_places();

/// The file of a library in NVIDIA's Python packages (site-packages/nvidia/*/lib), those first among which
/// our own lie, then those of the environment that is active, of the Python in PATH, and of the user; ""
/// where there is none, or where a folder of LD_LIBRARY_PATH has the library, which then wins as the loader
/// takes it.
std::string find_in_python_packages(const std::string& name, const LibraryPlaces& places);

/// Opens a library of NVIDIA's: one that the program has loaded already, because its context of CUDA is the
/// one to share; then as find_in_python_packages() and the system's loader find it. The environment's
/// `variable` names another file. Throws Missing, which says to install `package`.
void* open_library(const char* variable, const char* name, const char* package, bool in_packages = true);

/// The file that an open library came from; "" if that cannot be found out.
std::string path_of(void* library);

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

}  // namespace muster::plugin
