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

Library load_libraries() {
  Library api;
  plugin::load_driver(api);
  void* const handle = plugin::open_library("MUSTER_CUDNN_LIBRARY", "libcudnn.so.9", plugin::kCudnnPackage);
#define MUSTER_GPU_FIND(name, arguments) find(handle, #name, api.name);
  MUSTER_CUDNN_CALLS(MUSTER_GPU_FIND)
#undef MUSTER_GPU_FIND
  find(handle, "cudnnGetErrorString", api.cudnnGetErrorString);
  find(handle, "cudnnGetLastErrorString", api.cudnnGetLastErrorString);
  find(handle, "cudnnGetVersion", api.cudnnGetVersion);
  find(handle, "cudnnGetCudartVersion", api.cudnnGetCudartVersion);
  return api;
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

std::string cudnn_problem(std::size_t cudnn, int made_for, int driver) {
  const std::size_t major = cudnn / 10000;
  if (major != CUDNN_MAJOR)
    return "cuDNN that was loaded is of version " + std::to_string(major) + ", and Muster was built for " +
           std::to_string(CUDNN_MAJOR) + "; install that one, or name it by MUSTER_CUDNN_LIBRARY";
  if (made_for / 1000 <= driver / 1000) return "";
  return "cuDNN that was loaded is made for CUDA " + plugin::cuda_version_text(made_for) +
         ", and the driver is for CUDA " + plugin::cuda_version_text(driver) + "; install cuDNN for CUDA " +
         std::to_string(driver / 1000) + " (pip install nvidia-cudnn-cu" + std::to_string(driver / 1000) +
         "), or update the driver; with data-center GPUs NVIDIA's package cuda-compat does, too";
}

int capability_of(const Library& api, int device) {
  int major = 0;
  int minor = 0;
  CUdevice handle = 0;
  check(api, api.cuDeviceGet(&handle, device), "asking a GPU");
  check(api, api.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle),
        "asking a GPU");
  check(api, api.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle),
        "asking a GPU");
  return major * 10 + minor;
}

void require_device(const Library& api, int device) {
  int driver = 0;
  int count = 0;
  try {
    driver = plugin::start_driver(api);
    count = plugin::count_devices(api);
  } catch (const Error& error) {
    throw unusable(error.what());
  }
  const std::string problem =
      cudnn_problem(api.cudnnGetVersion(), static_cast<int>(api.cudnnGetCudartVersion()), driver);
  if (!problem.empty()) throw unusable(problem);
  if (device < 0 || device >= count)
    throw unusable("device " + std::to_string(device) + " is wanted and this process sees " +
                   std::to_string(count) + (count == 1 ? " GPU" : " GPUs") +
                   "; start fewer ranks on this host");
  const int capability = capability_of(api, device);
  if (capability < kOldestCapability)
    throw unusable("device " + std::to_string(device) + " has compute capability " +
                   std::to_string(capability / 10) + "." + std::to_string(capability % 10) +
                   " and 7.5 is the oldest that Muster's kernels are made for");
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
