// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/gpu/cuda/library.hpp"

#include "muster/error.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <variant>

namespace muster::nn::gpu {
namespace {

constexpr int kOldestCapability = 75;

class Missing {
 public:
  explicit Missing(std::string text) : text_(std::move(text)) {}

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string last_reason() {
  const char* const reason = dlerror();
  return reason != nullptr ? reason : "no reason given";
}

/// A library that the program has loaded already wins: its CUDA context is the one to share.
void* open_library(const char* variable, const char* name, const char* package) {
  const char* const chosen =
      std::getenv(variable);  // NOLINT(concurrency-mt-unsafe) before any thread of ours
  if (chosen != nullptr && *chosen != '\0') {
    void* const handle = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
      throw Missing(std::string(variable) + " names '" + chosen +
                    "', which cannot be loaded: " + last_reason());
    return handle;
  }
  if (void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return handle;
  void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    throw Missing(std::string(name) + " cannot be loaded (" + last_reason() + "); install " + package +
                  ", or set " + variable + " to its path");
  return handle;
}

template <typename Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr)
    throw Missing("the library has no function " + std::string(name) +
                  "; it is too old or not what its name says");
}

void require_same_major(const char* library, long found, long compiled) {
  const std::string problem = version_problem(library, found, compiled);
  if (!problem.empty()) throw Missing(problem);
}

Library load() {
  Library api;
  void* handle = open_library("MUSTER_CUDART_LIBRARY", "libcudart.so.13", "the runtime of CUDA 13");
#define MUSTER_GPU_FIND(name, arguments) find(handle, #name, api.name);
  MUSTER_RUNTIME_CALLS(MUSTER_GPU_FIND)
  find(handle, "cudaGetErrorString", api.cudaGetErrorString);
  int version = 0;
  if (api.cudaRuntimeGetVersion(&version) == cudaSuccess)
    require_same_major("the runtime of CUDA", version / 1000, CUDART_VERSION / 1000);
  handle = open_library("MUSTER_CUDNN_LIBRARY", "libcudnn.so.9", "cuDNN 9 for CUDA 13");
  MUSTER_CUDNN_CALLS(MUSTER_GPU_FIND)
  find(handle, "cudnnGetErrorString", api.cudnnGetErrorString);
  find(handle, "cudnnGetLastErrorString", api.cudnnGetLastErrorString);
  find(handle, "cudnnGetVersion", api.cudnnGetVersion);
  require_same_major("cuDNN", static_cast<long>(api.cudnnGetVersion() / 10000), CUDNN_MAJOR);
#undef MUSTER_GPU_FIND
  return api;
}

std::variant<Library, Missing> load_or_say_why() {
  try {
    return load();
  } catch (const Missing& missing) {
    return missing;
  }
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Error unusable(const std::string& cause) {
  return Error(ErrorCode::unsupported, "training on a GPU is not possible here: " + cause);
}

}  // namespace

const Library& library() {
  // Never unloaded and never changed: the libraries have threads.
  static const std::variant<Library, Missing> loaded = load_or_say_why();
  if (const auto* missing = std::get_if<Missing>(&loaded)) throw unusable(missing->text());
  return std::get<Library>(loaded);
}

std::string version_problem(const std::string& library, long found, long compiled) {
  if (found == compiled) return "";
  return library + " that was loaded is of version " + std::to_string(found) + ", and Muster was built for " +
         std::to_string(compiled) + "; install that one, or name it by the MUSTER_*_LIBRARY variables";
}

void require_device(const Library& api, int device) {
  int driver = 0;
  int runtime = 0;
  check(api, api.cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
  if (api.cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    throw unusable("no driver of NVIDIA is installed; install one for CUDA " + version_text(runtime) +
                   ", or train on the CPU");
  int count = 0;
  const cudaError_t result = api.cudaGetDeviceCount(&count);
  (void)api.cudaGetLastError();
  if (result == cudaErrorInsufficientDriver)
    throw unusable("the driver is for CUDA " + version_text(driver) + " and the runtime is " +
                   version_text(runtime) + "; update the driver");
  if (result == cudaErrorNoDevice || count == 0)
    throw unusable(
        "the driver shows no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES, or train on the CPU");
  check(api, result, "looking for GPUs");
  if (device < 0 || device >= count)
    throw unusable("device " + std::to_string(device) + " is wanted and this process sees " +
                   std::to_string(count) + (count == 1 ? " GPU" : " GPUs") +
                   "; start fewer ranks on this host");
  int major = 0;
  int minor = 0;
  check(api, api.cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking a GPU");
  check(api, api.cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "asking a GPU");
  if (major * 10 + minor < kOldestCapability)
    throw unusable("device " + std::to_string(device) + " has compute capability " + std::to_string(major) +
                   "." + std::to_string(minor) + " and 7.5 is the oldest that CUDA 13 knows");
}

void check(const Library& api, cudaError_t result, const std::string& what) {
  if (result == cudaSuccess) return;
  (void)api.cudaGetLastError();  // so that no later call reports it again
  throw Error(result == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::backend,
              what + " failed on the GPU: CUDA error " + std::to_string(static_cast<int>(result)) + ", " +
                  api.cudaGetErrorString(result));
}

void check(const Library& api, cudnnStatus_t result, const std::string& what) {
  if (result == CUDNN_STATUS_SUCCESS) return;
  throw Error(ErrorCode::backend, what + " failed on the GPU: cuDNN status " +
                                      std::to_string(static_cast<int>(result)) + ", " +
                                      api.cudnnGetErrorString(result) + last_words(api));
}

std::string last_words(const Library& api) {
  std::array<char, 512> text{};
  api.cudnnGetLastErrorString(text.data(), text.size());
  return text[0] == '\0' ? "" : std::string(": ") + text.data();
}

}  // namespace muster::nn::gpu
