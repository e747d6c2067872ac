// SPDX-License-Identifier: Apache-2.0
// libmuster_cuda.so: GPUs as a device to train on.
#include "muster/error.hpp"
#include "worker_sdk/nn/gpu/cuda/cuda_ops.hpp"
#include "worker_sdk/nn/gpu/plugin/serve.hpp"

#include <array>
#include <cstdlib>

namespace muster::nn::gpu {
namespace {

int device_of(const Library& api, int local_rank) {
  int count = 0;  // stays zero where the driver cannot be started, which require_device() says
  if (api.cuInit(0) == CUDA_SUCCESS) (void)api.cuDeviceGetCount(&count);
  return muster::plugin::device_of(local_rank, count);
}

bool wants_autotune() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  const char* const wish = std::getenv("MUSTER_CUDA_AUTOTUNE");
  return wish != nullptr && std::string(wish) == "1";
}

constexpr DeviceMaker kMaker = {
    [](int local_rank, bool& bf16) {
      const Library& api = library();
      const int device = device_of(api, local_rank);
      require_device(api, device);
      std::array<char, 256> name{};
      CUdevice handle = 0;
      check(api, api.cuDeviceGet(&handle, device), "asking a GPU for its name");
      check(api, api.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, handle),
            "asking a GPU for its name");
      bf16 = capability_of(api, device) >= 80;
      return std::string(name.data());
    },
    [](int local_rank) -> std::unique_ptr<Ops> {
      return std::make_unique<CudaOps>(device_of(library(), local_rank), wants_autotune());
    }};

}  // namespace
}  // namespace muster::nn::gpu

extern "C" __attribute__((visibility("default"))) const muster::nn::gpu::DeviceTable* muster_device_entry();

const muster::nn::gpu::DeviceTable* muster_device_entry() {
  return &muster::nn::gpu::serve<muster::nn::gpu::kMaker>();
}
