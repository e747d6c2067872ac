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

/// Buffers of the host; what allocate() gives is of the device all the same.
class HostMemory final : public contract::HostMemory {
 public:
  void write(void* place, const contract::Bytes& bytes) override { copy(place, bytes.data(), bytes.size()); }

  contract::Bytes read(const void* place, std::size_t bytes) override {
    contract::Bytes found(bytes);
    copy(found.data(), place, bytes);
    return found;
  }

 private:
  void copy(void* to, const void* from, std::size_t bytes) {
    const auto& api = nccl::library();
    nccl::check(api, api.cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, device_.stream()), "a copy");
    nccl::check(api, api.cudaStreamSynchronize(device_.stream()), "a copy");
  }

  test::DeviceMemory device_;
};

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

TEST_CASE("nccl keeps the contract over NCCL 2.19, which lacks some calls") {
  if (test::real_gpus() > 0) return;
  test::FakeGpus fakes;
  fakes.set("MUSTER_NCCL_LIBRARY", std::getenv("MUSTER_TEST_OLD_NCCL"));
  contract::Options on_device = options();
  on_device.worlds = {2};
  on_device.make_memory = [] { return std::make_unique<test::DeviceMemory>(); };
  contract::check_in_processes(test::make_nccl_group, on_device);
  CHECK(fakes.violations("same-") == "");
}

TEST_CASE("nccl keeps the contract in host memory, which it copies") {
  const test::FakeGpus fakes;
  contract::Options on_host = options();
  on_host.make_memory = [] { return std::make_unique<HostMemory>(); };
  on_host.worlds = {test::real_gpus() > 0 || kIsSlow ? 2 : 4};
  contract::check_in_processes(test::make_nccl_group, on_host);
  CHECK(fakes.violations("same-") == "");
}

}  // namespace muster
