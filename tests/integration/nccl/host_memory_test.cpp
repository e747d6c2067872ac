// SPDX-License-Identifier: Apache-2.0
// Memory of the host where each rank has a GPU: who sums it, and who starts no NCCL for it. The fakes' device
// memory cannot be touched by the program.
#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/integration/comm/rank_results.hpp"
#include "tests/integration/nccl/nccl_world.hpp"
#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/select/select.hpp"
#include "worker_sdk/parallel/compression.hpp"
#include "worker_sdk/parallel/reducer.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace muster::host_memory_test {
namespace {

using std::chrono::seconds;

const std::vector<ParameterSpec> kModel = {{"stem", {16, 9}}, {"body", {64, 65}}, {"head", {10}}};

ProcessGroupOptions patient() {
  ProcessGroupOptions options;
  options.timeout = seconds(60);
  return options;
}

void require(bool right, const std::string& what) {
  if (!right) throw std::runtime_error(what);
}

SelectOptions automatic(int rank, int size) {
  SelectOptions options;
  options.rank = options.local_rank = rank;
  options.size = size;
  options.host = "here";
  options.group = patient();
  return options;
}

/// The backend that a world of `options` gets.
std::string backend_of(StoreClient* keys, const SelectOptions& options) {
  return std::string(make_world_group(make_group_factory(keys, options), options)->backend());
}

/// One `int` in memory of the device, which is kept: a call that has failed may still be there.
class OnDevice {
 public:
  explicit OnDevice(int value) {
    contract::Bytes bytes(sizeof(value));
    std::memcpy(bytes.data(), &value, sizeof(value));
    buffer_->write(bytes);
  }

  int* data() const { return reinterpret_cast<int*>(buffer_->data()); }

  int value() const {
    int value = 0;
    std::memcpy(&value, buffer_->read().data(), sizeof(value));
    return value;
  }

 private:
  test::DeviceMemory* const memory_ = new test::DeviceMemory;
  contract::Buffer* const buffer_ = memory_->make(sizeof(int), 0).release();
};

Operation sum_of(int* data) {
  return operation_of(Collective::all_reduce, 1, DataType::i32, data, data);
}

/// What each of two ranks does in a world over NCCL.
std::vector<test::RankResult> run_pair(const std::function<std::string(ProcessGroup& group)>& body) {
  const test::StoreProcess store;
  return test::run_processes(2, store.port(), [&](int rank, StoreClient& keys) {
    return body(*test::make_nccl_group(keys, rank, 2, patient()));
  });
}

void check_refused(const std::function<void()>& call, const std::string& part) {
  try {
    call();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::invalid_argument && contains(error.what(), part), error.what());
    return;
  }
  require(false, "not refused: " + part);
}

/// One step in which every gradient is rank + 1.
void step(Reducer& reducer, int rank) {
  reducer.begin_step(1);
  for (std::size_t i = 0; i < kModel.size(); ++i) {
    std::fill_n(reducer.gradient(i), kModel[i].elements(), static_cast<float>(rank + 1));
    reducer.gradient_ready(i);
  }
  require(reducer.finish_step() == 2, "the samples");
}

/// Fails on rank 1; the other ranks sum on the group that they were given, as a hook of the C API does.
class FailingHook final : public BucketHook {
 public:
  explicit FailingHook(ProcessGroup& given) : given_(given) {}

  void prepare(ProcessGroup&, std::span<const BucketView>) override {}

  void reduce(ProcessGroup&, const BucketView& bucket) override {
    if (given_.rank() == 1) throw Error(ErrorCode::io, "a hook that fails");
    given_.all_reduce(bucket.gradients, bucket.elements, DataType::f32, ReduceOp::sum);
  }

  std::string describe() const override { return "a failing hook"; }

 private:
  ProcessGroup& given_;
};

}  // namespace

TEST_CASE("gradients are summed in memory of the host where the group moves memory of devices") {
  const test::FakeGpus fakes;
  const test::StoreProcess store;
  const bool compressed = GENERATE(false, true);
  const auto results = test::run_processes(2, store.port(), [&](int rank, StoreClient& keys) {
    const auto group = test::make_nccl_group(keys, rank, 2, patient());
    ReducerOptions options;
    options.first_bucket_bytes = 64;
    if (compressed) options.hook = make_half_hook(DataType::bf16);
    Reducer reducer(kModel, group.get(), options);
    for (int i = 0; i < 2; ++i) step(reducer, rank);
    for (std::size_t i = 0; i < kModel.size(); ++i)
      require(std::all_of(reducer.gradient(i), reducer.gradient(i) + kModel[i].elements(),
                          [](float value) { return value == 3.0F; }),
              "the sum");
    return std::string(group->backend());
  });
  test::check_returned(results, "nccl");
  CHECK(fakes.violations() == "");
}

TEST_CASE("a hook that fails on one rank ends the calls that others make in it on the group of devices") {
  const test::FakeGpus fakes;
  const test::StoreProcess store;
  const auto results = test::run_processes(2, store.port(), [](int rank, StoreClient& keys) {
    const auto group = test::make_nccl_group(keys, rank, 2, patient());
    ReducerOptions options;
    options.hook = std::make_shared<FailingHook>(*group);
    Reducer reducer(kModel, group.get(), options);
    step(reducer, rank);
    return "not refused";
  });
  test::check_failed({results[0]}, ErrorCode::aborted,
                     {"rank 1 failed while a bucket of gradients was reduced"});
  CHECK(results[1].code == ErrorCode::io);
}

TEST_CASE("an abort of a group ends its calls on memory of the host") {
  const test::FakeGpus fakes;
  const auto results = run_pair([](ProcessGroup& group) {
    if (group.rank() == 1) group.abort("enough");
    group.barrier();
    return "not aborted";
  });
  test::check_failed(results, ErrorCode::aborted, {"enough"});
}

TEST_CASE("calls on memory of the host and of the device take turns in one group") {
  const test::FakeGpus fakes;
  const auto results = run_pair([](ProcessGroup& group) {
    const int mine = group.rank() + 1;
    const OnDevice on_device(mine);
    int on_host = mine;
    for (int round = 0; round < 3; ++round) {
      const auto started = group.start({sum_of(&on_host)});
      group.run(sum_of(on_device.data()));
      require(started->test(), "a call on the device begins when those on the host are complete");
    }
    require(on_host == 12 && on_device.value() == 12, "three sums over two ranks");
    return "right";
  });
  test::check_returned(results, "right");
  CHECK(fakes.violations() == "");
}

TEST_CASE("ranks that give memory of different kinds are told so") {
  const test::FakeGpus fakes;
  const auto results = run_pair([](ProcessGroup& group) {
    const OnDevice on_device(1);
    int on_host = 1;
    group.run(sum_of(group.rank() == 0 ? &on_host : on_device.data()));
    return "not told";
  });
  test::check_failed(results, ErrorCode::mismatch, {"rank 0 (", "sum, rank 1 (", "sum, on the device"});
}

TEST_CASE("what fails on the device of one rank ends the call of another on memory of the host") {
  test::FakeGpus fakes;
  fakes.set("FAKE_NCCL_FAULT", "fail@1:1");
  const auto results = run_pair([](ProcessGroup& group) {
    const OnDevice on_device(1);
    if (group.rank() == 1) group.run(sum_of(on_device.data()));
    group.barrier();
    return "not ended";
  });
  for (const test::RankResult& result : results) {
    INFO(result.text);
    // Which of the two is first is open: that NCCL refused, or that the ranks' calls differ.
    CHECK((result.code == ErrorCode::backend || result.code == ErrorCode::mismatch));
  }
}

TEST_CASE("memory of a group is of the host unless it is asked for on the device") {
  const test::FakeGpus fakes;
  const auto results = run_pair([](ProcessGroup& group) {
    auto* const host = static_cast<int*>(group.allocate(sizeof(int)));
    auto* const device = static_cast<int*>(group.allocate(sizeof(int), MemoryKind::device));
    *host = group.rank() + 1;
    group.run(sum_of(host));
    group.run(sum_of(device));
    Operation mixed = sum_of(host);
    mixed.out = device;
    check_refused([&] { group.run(mixed); }, "one buffer in memory of the host and one on the device");
    check_refused([&] { group.run({sum_of(host), sum_of(device)}); }, "one batch");
    group.barrier();
    return std::to_string(*host);
  });
  test::check_returned(results, "3");
  CHECK(fakes.violations() == "");
}

TEST_CASE("auto is NCCL where each rank has a GPU, unless the program gives memory of the host") {
  const test::FakeGpus fakes;
  const test::StoreProcess store;
  const auto results = test::run_processes(2, store.port(), [](int rank, StoreClient& keys) {
    SelectOptions options = automatic(rank, 2);
    options.host_memory = true;
    std::string text = backend_of(&keys, options);
    require(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr, "CUDA was loaded for the host");
    options.host_memory = false;
    text += ", " + backend_of(&keys, options);
    // All ranks must have a use for it.
    options.host_memory = rank == 1;
    return text + ", " + backend_of(&keys, options);
  });
  test::check_returned(results, "shm, nccl, shm");
}

TEST_CASE("a lone rank starts NCCL only where it asks for it or names a device") {
  const test::FakeGpus fakes;
  const test::StoreProcess store;
  const auto results = test::run_processes(1, store.port(), [](int, StoreClient&) {
    SelectOptions options = automatic(0, 1);
    std::string text = backend_of(nullptr, options);
    require(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr, "CUDA was loaded for a lone rank");
    options.device = 0;
    text += ", " + backend_of(nullptr, options);
    options.device = -1;
    options.backend = "nccl";
    return text + ", " + backend_of(nullptr, options);
  });
  CHECK(results[0].text == "shm, nccl, nccl");
}

TEST_CASE("where NCCL cannot start, auto goes on over memory of the host on all ranks") {
  test::FakeGpus fakes;
  fakes.set("FAKE_NCCL_FAULT", "fail@init:1");
  const test::StoreProcess store;
  const auto sum = [](ProcessGroup& group) {
    int value = group.rank() + 1;
    group.run(sum_of(&value));
    return std::string(group.backend()) + " " + std::to_string(value);
  };
  const auto results = test::run_processes(2, store.port(), [&](int rank, StoreClient& keys) {
    const SelectOptions options = automatic(rank, 2);
    const auto group = make_world_group(make_group_factory(&keys, options), options);
    const auto child = group->split(0, 0);
    return sum(*group) + ", " + sum(*child);
  });
  test::check_returned(results, "shm 3, shm 3");
}

TEST_CASE("two ranks on one GPU use memory of the host, unless they pose as two hosts") {
  test::FakeGpus fakes;
  fakes.set("FAKE_CUDA_DEVICES", "1");
  fakes.set("CUDA_VISIBLE_DEVICES", "0");
  const test::StoreProcess store;
  const auto results = test::run_processes(2, store.port(), [](int rank, StoreClient& keys) {
    SelectOptions options = automatic(rank, 2);
    std::string text = backend_of(&keys, options);
    options.backend = "nccl";
    try {
      text += ", " + backend_of(&keys, options);
    } catch (const Error& error) {
      require(
          contains(error.what(), "both use the GPU 0000:10:00.0") && contains(error.what(), "NCCL_HOSTID"),
          error.what());
    }
    setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
    return text + ", " + backend_of(&keys, options);
  });
  test::check_returned(results, "shm, nccl");
  CHECK(fakes.violations() == "");
}

TEST_CASE("a stream is refused where the group moves memory of the host, and the group lives on") {
  SelectOptions options = automatic(0, 1);
  options.backend = "shm";
  const auto group = make_world_group(make_group_factory(nullptr, options), options);
  int value = 5;
  Operation operation = operation_of(Collective::all_reduce, 1, DataType::i32, &value, &value);
  operation.stream = &value;
  CHECK_THROWS_WITH(group->run(operation), Contains("MUSTER_BACKEND=nccl"));
  CHECK_THROWS_WITH(group->start({operation}), Contains("backend 'shm'"));
  operation.stream = nullptr;
  group->run(operation);
  CHECK(value == 5);
}

}  // namespace muster::host_memory_test
