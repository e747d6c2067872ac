// SPDX-License-Identifier: Apache-2.0
// The contract of all backends, over NCCL.
#include "tests/contract/contract.hpp"

#include "catch.hpp"
#include "tests/integration/nccl/nccl_world.hpp"

#include <cstdlib>

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
  options.usual_mismatch_seconds = 0.15;  // the watchdog looks ten times a second
  options.finds_late = test::real_gpus() > 0;
  options.supports = [](DataType, ReduceOp op) { return !is_bitwise(op); };
  return options;
}

contract::Options device_options() {
  contract::Options on_device = options();
  on_device.allocates = MemoryKind::device;
  on_device.make_memory = [] { return std::make_unique<test::DeviceMemory>(); };
  return on_device;
}

}  // namespace

TEST_CASE("nccl keeps the contract in device memory") {
  const test::FakeGpus fakes;
  contract::Options on_device = device_options();
  on_device.worlds = test::real_gpus() > 2 ? std::vector<int>{2, test::real_gpus()} : std::vector<int>{2};
  if (test::real_gpus() == 0 && !kIsSlow) on_device.worlds = {2, 3};
  contract::check_in_processes(test::make_nccl_group, on_device);
  CHECK(fakes.violations("same-") == "");
}

TEST_CASE("nccl keeps the contract over NCCL 2.19, which lacks some calls") {
  if (test::real_gpus() > 0) return;
  test::FakeGpus fakes;
  fakes.set("MUSTER_NCCL_LIBRARY", std::getenv("MUSTER_TEST_OLD_NCCL"));
  contract::Options on_device = device_options();
  on_device.worlds = {2};
  contract::check_in_processes(test::make_nccl_group, on_device);
  CHECK(fakes.violations("same-") == "");
}

TEST_CASE("a group over nccl keeps the contract in host memory, which goes another way") {
  const test::FakeGpus fakes;
  contract::Options on_host = options();
  on_host.supports = nullptr;
  on_host.finds_late = false;
  on_host.worlds = {test::real_gpus() > 0 || kIsSlow ? 2 : 4};
  contract::check_in_processes(test::make_nccl_group, on_host);
  CHECK(fakes.violations() == "");
}

}  // namespace muster
