// SPDX-License-Identifier: Apache-2.0
// Row layers on the real libmuster_cuda.so, on the fakes of CUDA and cuDNN: eager and recorded, they have the
// bits of the host's own device, whichever of its ways a product takes. Unit tests compare that device with
// definitions.
#include "tests/fakes/cuda/environment.hpp"
#include "tests/fakes/cuda/fake_cuda.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "tests/unit/worker_sdk/nn/gpu/row_block.hpp"
#include "worker_sdk/nn/gpu/plugin/device.hpp"

namespace muster::nn::gpu {
namespace {

using test::BlockSize;

template <typename T>
std::vector<std::vector<float>> on_host(const BlockSize& size, Precision precision) {
  HostOps ops;
  test::RowBlock<T> block(ops, size, precision);
  block.run();
  return block.results();
}

template <typename T>
void check_on_plugin(const BlockSize& size, Precision precision) {
  const auto wanted = on_host<T>(size, precision);
  const auto ops = open_device("cuda", 0);
  test::RowBlock<T> block(*ops, size, precision);
  block.run();
  ops->synchronize();
  CHECK(block.results() == wanted);
  const auto graph = ops->capture([&] { block.run(); });
  graph->launch();
  CHECK(block.results() == wanted);
}

/// Of those whose rows begin at multiples of 16 bytes, and others.
const BlockSize kSizes[] = {{2, 16, 48, 2}, {3, 9, 40, 4}};

}  // namespace

TEST_CASE("row layers of the plug-in have the bits of the host's kernels") {
  for (const BlockSize& size : kSizes) {
    CAPTURE(size.tokens);
    test::CudaFakes fakes;
    check_on_plugin<float>(size, Precision::f32);
    check_on_plugin<Bf16>(size, Precision::bf16);
    CHECK(fakes.violations() == "");
  }
  CHECK(fake_cuda_live_graphs() == 0);
}

TEST_CASE("products have the same bits without a plan of cuDNN, and with one that was measured") {
  const auto [variable, value] = GENERATE(table<std::string, std::string>(
      {{"FAKE_CUDNN_PLANS", "none"}, {"FAKE_CUDNN_PLANS", "fallback"}, {"MUSTER_CUDA_AUTOTUNE", "1"}}));
  test::CudaFakes fakes;
  fakes.set(variable, value);
  CAPTURE(variable, value);
  check_on_plugin<Bf16>(kSizes[0], Precision::bf16);
  CHECK(fakes.violations() == "");
}

TEST_CASE("a product that cuDNN has no plan for is said once") {
  test::CudaFakes fakes;
  fakes.set("FAKE_CUDNN_PLANS", "none");
  const auto ops = open_device("cuda", 0);
  auto* const memory = static_cast<float*>(ops->allocate(512, "a test"));
  MultiplyCall call;
  call.m = call.n = call.k = 8;
  call.a = call.b = {memory, 8, 1};
  call.result = memory + 64;
  call.result_row = 8;
  call.tf32 = true;
  CHECK(ops->take_note() == "");
  for (int i = 0; i < 2; ++i) ops->multiply(call);
  CHECK_THAT(ops->take_note(), Contains("has no plan for products such as 1 product of 8 x 8 by 8 x 8"));
  CHECK(ops->take_note() == "");
}

TEST_CASE("products in tf32 are those of tensor cores") {
  test::CudaFakes fakes;
  const auto ops = open_device("cuda", 0);
  const auto product = [&](bool tf32) {
    const std::vector<float> ones(64, 1.0F);
    auto* const a = static_cast<float*>(ops->allocate(256, "a test"));
    auto* const result = static_cast<float*>(ops->allocate(256, "a test"));
    ops->to_device(a, ones.data(), 256);
    MultiplyCall call;
    call.m = call.n = call.k = 8;
    call.a = call.b = {a, 8, 1};
    call.result = result;
    call.result_row = 8;
    call.tf32 = tf32;
    ops->multiply(call);
    float first = 0;
    ops->from_device(&first, result, sizeof(first));
    return first;
  };
  CHECK(product(false) == 8.0F);
  // The fake makes those results wrong by as much as TF32 may be.
  CHECK(product(true) == 8.0F * 1.0004F);
}

}  // namespace muster::nn::gpu
