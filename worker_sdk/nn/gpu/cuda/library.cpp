// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/gpu/cuda/library.hpp"

#include "muster/error.hpp"

#include <array>
#include <variant>

namespace muster::nn::gpu {
namespace {

constexpr int kOldestCapability = 75;

using plugin::find;
using plugin::Missing;

void require_same_major(const char* library, long found, long compiled) {
  const std::string problem = version_problem(library, found, compiled);
  if (!problem.empty()) throw Missing(problem);
}

Library load_libraries() {
  Library api;
  constexpr const char* kRuntime[] = {"libcudart.so.13"};
  constexpr const char* kCudnn[] = {"libcudnn.so.9"};
  void* handle = plugin::open_library("MUSTER_CUDART_LIBRARY", kRuntime, "the runtime of CUDA 13");
#define MUSTER_GPU_FIND(name, arguments) find(handle, #name, api.name);
  MUSTER_RUNTIME_CALLS(MUSTER_GPU_FIND)
  find(handle, "cudaGetErrorString", api.cudaGetErrorString);
  int version = 0;
  if (api.cudaRuntimeGetVersion(&version) == cudaSuccess)
    require_same_major("the runtime of CUDA", version / 1000, CUDART_VERSION / 1000);
  handle = plugin::open_library("MUSTER_CUDNN_LIBRARY", kCudnn, "cuDNN 9 for CUDA 13");
  MUSTER_CUDNN_CALLS(MUSTER_GPU_FIND)
  find(handle, "cudnnGetErrorString", api.cudnnGetErrorString);
  find(handle, "cudnnGetLastErrorString", api.cudnnGetLastErrorString);
  find(handle, "cudnnGetVersion", api.cudnnGetVersion);
  require_same_major("cuDNN", static_cast<long>(api.cudnnGetVersion() / 10000), CUDNN_MAJOR);
#undef MUSTER_GPU_FIND
  return api;
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
  static const std::variant<Library, Missing> loaded = plugin::load_or_say_why(load_libraries);
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

void check(const Library& api, cudnnStatus_t result, const std::string& what) {
  if (result == CUDNN_STATUS_SUCCESS) return;
  throw Error(ErrorCode::backend, what + " failed: cuDNN status " + std::to_string(static_cast<int>(result)) +
                                      ", " + api.cudnnGetErrorString(result) + last_words(api));
}

std::string last_words(const Library& api) {
  std::array<char, 512> text{};
  api.cudnnGetLastErrorString(text.data(), text.size());
  return text[0] == '\0' ? "" : std::string(": ") + text.data();
}

}  // namespace muster::nn::gpu
