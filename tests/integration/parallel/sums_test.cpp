// SPDX-License-Identifier: Apache-2.0
// Data-parallel steps between real processes over shared memory, that meet through a real store.
#include "catch.hpp"
#include "rendezvous/base/philox.hpp"
#include "tests/integration/comm/rank_processes.hpp"
#include "tests/support/shm_groups.hpp"
#include "worker_sdk/parallel/deterministic.hpp"
#include "worker_sdk/parallel/parameter_check.hpp"
#include "worker_sdk/parallel/reducer.hpp"
#include "worker_sdk/parallel/statistics_exchange.hpp"

#include <bit>

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::RankResult;
using test::run_processes;
using test::StoreProcess;

const std::vector<ParameterSpec> kModel = {{"stem", {16, 9}}, {"body", {64, 65}}, {"head", {10}}};

ProcessGroupOptions within(milliseconds timeout) {
  ProcessGroupOptions options;
  options.timeout = timeout;
  return options;
}

ReducerOptions over_store(StoreClient& store) {
  ReducerOptions options;
  options.store = &store;
  options.first_bucket_bytes = 64;
  return options;
}

void expect_all(const std::vector<RankResult>& results, ErrorCode code, const std::string& part) {
  for (const RankResult& result : results) {
    INFO(result.text);
    CHECK(result.code == code);
    CHECK(result.text.find(part) != std::string::npos);
  }
}

/// Hash of the parameters after three deterministic steps of plain gradient descent.
std::string train(ProcessGroup* group, StoreClient* store) {
  ReducerOptions options;
  options.store = store;
  options.first_bucket_bytes = 64;
  options.deterministic_micro_batches = 8;
  Reducer reducer(kModel, group, options);
  const MicroBatches plan = share_micro_batches(8, group);
  std::vector<float> values(reducer.elements());
  std::vector<const float*> pointers;
  for (std::size_t i = 0; i < kModel.size(); ++i) pointers.push_back(values.data() + reducer.offset(i));
  std::uint64_t hash = 0;
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (int k = plan.first; k < plan.first + plan.count; ++k) {
      const bool last = k + 1 == plan.first + plan.count;
      last ? reducer.begin_step(2) : reducer.begin_micro_batch(2);
      for (std::size_t i = kModel.size(); i-- > 0;) {
        RandomStream random(step, static_cast<std::uint64_t>(k) << 32 | i);
        for (std::size_t e = 0; e < kModel[i].elements(); ++e)
          reducer.gradient(i)[e] = (random.unit() - 0.5F) * static_cast<float>(1U << (random.next() % 20)) -
                                   values[reducer.offset(i) + e];
        reducer.gradient_ready(i);
      }
      if (!last) reducer.finish_micro_batch();
    }
    const auto samples = static_cast<float>(reducer.finish_step());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.5F * reducer.gradients()[i] / samples;
    hash = require_same_parameters(group, kModel, pointers, static_cast<std::int64_t>(step));
  }
  return std::to_string(hash);
}

TEST_CASE("Models are compared over the store before anything else happens") {
  StoreProcess store;
  auto results = run_processes(3, store.port(), [](int rank, StoreClient& keys) -> std::string {
    const auto group = make_shm_process_group(&keys, rank, 3, within(seconds(60)));
    Reducer first(kModel, group.get(), over_store(keys));
    Reducer second(kModel, group.get(), over_store(keys));
    std::vector<ParameterSpec> model = kModel;
    if (rank == 2) model[1].shape = {65, 64};
    Reducer third(model, group.get(), over_store(keys));
    return "not refused";
  });
  expect_all(results, ErrorCode::mismatch, "parameter 1: rank 0 has body [64, 65], rank 2 has body [65, 64]");
}

TEST_CASE("A rank that does not come to compare models is named") {
  StoreProcess store;
  const auto results = run_processes(3, store.port(), [](int rank, StoreClient& keys) -> std::string {
    auto options = within(seconds(rank == 0 ? 3 : 60));
    options.join_timeout = seconds(60);
    const auto group = make_shm_process_group(&keys, rank, 3, options);
    if (rank == 1) {
      // Stays until the others know, so that it is late and not dead.
      keys.wait({"seen"}, seconds(60));
      return "late";
    }
    try {
      Reducer reducer(kModel, group.get(), over_store(keys));
    } catch (const Error& error) {
      keys.set("seen", "1");
      throw;
    }
    return "not refused";
  });
  CHECK(results[1].text == "late");
  for (const std::size_t rank : {0U, 2U}) {
    INFO(results[rank].text);
    CHECK(results[rank].code == ErrorCode::deadline);
    CHECK(results[rank].text.find("rank 1 did not say") != std::string::npos);
  }
}

TEST_CASE("Deterministic steps have the same bits on 1, 2, 4 and 8 processes") {
  const std::string alone = train(nullptr, nullptr);
  for (const int ranks : {2, 4, 8}) {
    StoreProcess store;
    const auto results = run_processes(ranks, store.port(), [ranks](int rank, StoreClient& keys) {
      const auto group = make_shm_process_group(&keys, rank, ranks, within(seconds(60)));
      return train(group.get(), &keys);
    });
    for (const RankResult& result : results) {
      INFO(ranks << " ranks: " << result.text);
      CHECK(result.text == alone);
    }
  }
}

TEST_CASE("A flipped bit names the process that has it") {
  StoreProcess store;
  const auto results = run_processes(3, store.port(), [](int rank, StoreClient& keys) -> std::string {
    const auto group = make_shm_process_group(&keys, rank, 3, within(seconds(60)));
    std::vector<std::vector<float>> values;
    std::vector<const float*> pointers;
    for (const ParameterSpec& spec : kModel) values.emplace_back(spec.elements(), 0.5F);
    for (const auto& tensor : values) pointers.push_back(tensor.data());
    require_same_parameters(group.get(), kModel, pointers, 10);
    if (rank == 2) values[1][4000] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[1][4000]) ^ 1U);
    require_same_parameters(group.get(), kModel, pointers, 20);
    return "not found";
  });
  expect_all(results, ErrorCode::mismatch,
             "step 20: parameter body of rank 2 differs from that of the other");
}

TEST_CASE("Statistics are exchanged in a group beside that of the gradients") {
  StoreProcess store;
  const auto results = run_processes(2, store.port(), [](int rank, StoreClient& keys) -> std::string {
    const auto group = make_shm_process_group(&keys, rank, 2, within(seconds(60)));
    const auto exchange = make_group_statistics(group.get());
    Reducer reducer(kModel, group.get(), over_store(keys));
    for (int step = 0; step < 10; ++step) {
      reducer.begin_step(1);
      for (std::size_t i = kModel.size(); i-- > 0;) {
        reducer.mark_unused(i);
        std::vector<double> sums(3, rank + 1.0);
        exchange->sum(sums);
        if (sums != std::vector<double>(3, 3.0)) return "wrong";
      }
      reducer.finish_step();
    }
    return "right";
  });
  for (const RankResult& result : results) CHECK(result.text == "right");
}

}  // namespace
}  // namespace muster
