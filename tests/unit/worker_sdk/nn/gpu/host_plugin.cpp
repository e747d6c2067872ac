// SPDX-License-Identifier: Apache-2.0
// A libmuster_cuda.so whose "GPU" is the host: what a program does with a device is tested whole, through the
// plug-in's table, where there is none. MUSTER_TEST_GPUS (1) is how many it pretends to have,
// MUSTER_TEST_OLD_GPU makes them old ones, without bf16 and TF32.
#include "muster/error.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "worker_sdk/nn/gpu/plugin/serve.hpp"

#include <cstdlib>

namespace muster::nn::gpu {
namespace {

void require_device(int local_rank) {
  const char* const text = std::getenv("MUSTER_TEST_GPUS");
  if (local_rank >= (text == nullptr ? 1 : std::atoi(text)))
    throw Error(ErrorCode::unsupported, "there is no device " + std::to_string(local_rank) + " of the test");
}

constexpr DeviceMaker kMaker = {[](int local_rank, bool& bf16) {
                                  require_device(local_rank);
                                  bf16 = std::getenv("MUSTER_TEST_OLD_GPU") == nullptr;
                                  return std::string("the host");
                                },
                                [](int local_rank) -> std::unique_ptr<Ops> {
                                  require_device(local_rank);
                                  return std::make_unique<HostOps>();
                                }};

}  // namespace
}  // namespace muster::nn::gpu

extern "C" __attribute__((visibility("default"))) const muster::nn::gpu::DeviceTable* muster_device_entry();

const muster::nn::gpu::DeviceTable* muster_device_entry() {
  return &muster::nn::gpu::serve<muster::nn::gpu::kMaker>();
}
