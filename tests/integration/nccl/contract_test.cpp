// SPDX-License-Identifier: Apache-2.0
// The contract of all backends, over NCCL.
#include "tests/contract/contract.hpp"

#include "catch.hpp"
#include "tests/integration/nccl/nccl_world.hpp"

namespace muster {
namespace {

#ifdef MUSTER_SANITIZED
constexpr bool kIsSlow = true;
#else
constexpr bool kIsSlow = false;
#endif

contract::Options options() {
  contract::Options options;
  options.quick = true;
  options.any_address = false;
  options.finds_late = test::real_gpus() > 0;
  options.supports = [](DataType, ReduceOp op) { return !is_bitwise(op); };
  return options;
}

}  // namespace

TEST_CASE("nccl keeps the contract in device memory") {
  const test::FakeGpus fakes;
  contract::Options on_device = options();
  on_device.worlds = test::real_gpus() > 2 ? std::vector<int>{2, test::real_gpus()} : std::vector<int>{2};
  if (test::real_gpus() == 0 && !kIsSlow) on_device.worlds = {2, 3};
  on_device.make_memory = [] { return std::make_unique<test::DeviceMemory>(); };
  contract::check_in_processes(test::make_nccl_group, on_device);
  CHECK(fakes.violations("same-") == "");
}

TEST_CASE("nccl keeps the contract in host memory, which it copies") {
  const test::FakeGpus fakes;
  contract::Options on_host = options();
  on_host.worlds = {test::real_gpus() > 0 || kIsSlow ? 2 : 4};
  contract::check_in_processes(test::make_nccl_group, on_host);
  CHECK(fakes.violations("same-") == "");
}

}  // namespace muster
