// SPDX-License-Identifier: Apache-2.0
// Memory of the host where each rank has a GPU: who sums it, and who starts no NCCL for it. The fakes' device
// memory cannot be touched by the program.
#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/integration/comm/rank_results.hpp"
#include "tests/integration/nccl/nccl_world.hpp"
#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/select/select.hpp"
#include "worker_sdk/parallel/bucket_hook.hpp"
#include "worker_sdk/parallel/reducer.hpp"

#include <dlfcn.h>

#include <algorithm>

namespace muster {
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
    return std::string(group->backend()) + " and " + std::string(group->host_group().backend());
  });
  test::check_returned(results, "nccl and shm");
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

TEST_CASE("an abort of a group ends the calls of its group for the host") {
  const test::FakeGpus fakes;
  const test::StoreProcess store;
  const auto results = test::run_processes(2, store.port(), [](int rank, StoreClient& keys) {
    const auto group = test::make_nccl_group(keys, rank, 2, patient());
    ProcessGroup& host = group->host_group();
    if (rank == 1) group->abort("enough");
    host.barrier();
    return "not aborted";
  });
  test::check_failed(results, ErrorCode::aborted, {"enough"});
}

TEST_CASE("auto is NCCL where each rank has a GPU, unless the program gives memory of the host") {
  const test::FakeGpus fakes;
  const test::StoreProcess store;
  const auto results = test::run_processes(2, store.port(), [](int rank, StoreClient& keys) {
    SelectOptions options = automatic(rank, 2);
    options.host_memory = true;
    std::string text = backend_of(&keys, options);
    require(dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD) == nullptr, "CUDA was loaded for the host");
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
    require(dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD) == nullptr, "CUDA was loaded for a lone rank");
    options.device = 0;
    text += ", " + backend_of(nullptr, options);
    options.device = -1;
    options.backend = "nccl";
    return text + ", " + backend_of(nullptr, options);
  });
  CHECK(results[0].text == "shm, nccl, nccl");
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

}  // namespace muster
