// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/deterministic.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "rendezvous/base/philox.hpp"
#include "tests/support/shm_ranks.hpp"
#include "worker_sdk/parallel/compression.hpp"
#include "worker_sdk/parallel/reducer.hpp"

#include <numeric>
#include <set>

namespace deterministic_test {

using muster::ParameterSpec;
using muster::ProcessGroup;
using muster::Reducer;
using muster::ReducerOptions;
using muster::test::run_shm_ranks;

namespace {

const std::vector<ParameterSpec> kModel = {{"a", {40}}, {"b", {3, 500}}, {"c", {101}}, {"d", {1}}};

/// Of very different sizes, so that the order of additions shows.
float gradient(std::uint32_t sample, std::size_t parameter, std::size_t k) {
  muster::RandomStream random(sample, parameter << 32 | k);
  const float unit = random.unit() - 0.5F;
  return unit * static_cast<float>(1U << (random.next() % 24));
}

void compute(Reducer& reducer, std::span<const std::uint32_t> samples) {
  for (std::size_t i = kModel.size(); i-- > 0;) {
    for (std::size_t k = 0; k < kModel[i].elements(); ++k) {
      float sum = 0;
      for (const std::uint32_t sample : samples) sum += gradient(sample, i, k);
      reducer.gradient(i)[k] = sum;
    }
    reducer.gradient_ready(i);
  }
}

/// Reduced gradients of two steps over batches of `batch` samples, as one rank sees them.
std::vector<float> two_steps(ProcessGroup* group, std::size_t batch, int micro_batches) {
  ReducerOptions options;
  options.first_bucket_bytes = 256;
  options.bucket_bytes = 1024;
  options.deterministic_micro_batches = micro_batches;
  Reducer reducer(kModel, group, options);
  const muster::MicroBatches plan = muster::share_micro_batches(micro_batches, group);
  std::vector<float> result;
  for (std::uint32_t step = 0; step < 2; ++step) {
    std::vector<std::uint32_t> samples(batch);
    std::iota(samples.begin(), samples.end(), step * 1000);
    const std::span<const std::uint32_t> all(samples);
    for (int k = plan.first; k < plan.first + plan.count; ++k) {
      const auto mine = plan.part(all, k);
      const auto count = static_cast<std::int64_t>(mine.size());
      const bool last = k + 1 == plan.first + plan.count;
      last ? reducer.begin_step(count) : reducer.begin_micro_batch(count);
      compute(reducer, mine);
      if (!last) reducer.finish_micro_batch();
    }
    if (reducer.finish_step() != static_cast<std::int64_t>(batch)) throw std::runtime_error("samples lost");
    result.insert(result.end(), reducer.gradients(), reducer.gradients() + reducer.elements());
  }
  return result;
}

}  // namespace

TEST_CASE("The gradients of 1, 2, 4 and 8 ranks have the same bits") {
  // 13 does not divide evenly; with 5 some micro-batches are empty.
  for (const std::size_t batch : {32U, 13U, 5U}) {
    const std::vector<float> alone = two_steps(nullptr, batch, 8);
    for (const int ranks : {2, 4, 8}) {
      std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks));
      const auto errors = run_shm_ranks(ranks, [&](ProcessGroup& group) {
        results[static_cast<std::size_t>(group.rank())] = two_steps(&group, batch, 8);
      });
      REQUIRE(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
      for (const auto& result : results) {
        INFO(ranks << " ranks, batch " << batch);
        REQUIRE(result == alone);
      }
    }
  }
}

TEST_CASE("Another number of micro-batches gives other bits") {
  CHECK(two_steps(nullptr, 32, 8) != two_steps(nullptr, 32, 4));
}

TEST_CASE("Values beside the gradients are summed by the same tree") {
  const std::size_t elements = 37;
  const auto value = [](int k, std::size_t i) { return gradient(static_cast<std::uint32_t>(k), 9, i); };
  std::vector<std::vector<float>> results;
  for (const int ranks : {1, 2, 4, 8}) {
    std::vector<std::vector<float>> found(static_cast<std::size_t>(ranks), std::vector<float>(elements));
    const auto errors = run_shm_ranks(ranks, [&](ProcessGroup& group) {
      const auto plan = muster::share_micro_batches(8, &group);
      muster::parallel::HostMemory memory;
      muster::parallel::Accumulator waiting(memory, elements, muster::parallel::SumOrder::tree, "a sum");
      const auto tree = muster::make_tree_hook();
      muster::BucketView view;
      view.elements = elements;
      tree->prepare(group, {&view, 1});
      auto& sum = found[static_cast<std::size_t>(group.rank())];
      for (int repeat = 0; repeat < 2; ++repeat) {
        for (int k = plan.first; k < plan.first + plan.count; ++k) {
          for (std::size_t i = 0; i < elements; ++i) sum[i] = value(k, i);
          const auto place = static_cast<unsigned>(k - plan.first);
          if (k + 1 < plan.first + plan.count)
            waiting.add(place, sum.data(), 0, elements);
          else
            waiting.fold_into(place, sum.data(), 0, elements);
        }
        view.gradients = sum.data();
        tree->reduce(group, view);
      }
    });
    REQUIRE(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
    results.insert(results.end(), found.begin(), found.end());
  }
  for (const auto& result : results) CHECK(result == results[0]);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto pair = [&](int k) { return value(k, i) + value(k + 1, i); };
    CHECK(results[0][i] == (pair(0) + pair(2)) + (pair(4) + pair(6)));
  }
}

TEST_CASE("Micro-batches are cut alike for every world, and cover the batch") {
  std::vector<int> batch(29);
  std::iota(batch.begin(), batch.end(), 0);
  const auto plan = muster::share_micro_batches(8, nullptr);
  std::vector<int> all;
  for (int k = 0; k < 8; ++k) {
    const auto part = plan.part(std::span<const int>(batch), k);
    CHECK((part.size() == 3 || part.size() == 4));
    all.insert(all.end(), part.begin(), part.end());
  }
  CHECK(all == batch);
}

TEST_CASE("A deterministic world that cannot be is refused") {
  CHECK_THROWS_AS(muster::share_micro_batches(6, nullptr), muster::Error);
  CHECK_THROWS_AS(muster::share_micro_batches(0, nullptr), muster::Error);
  const auto errors = run_shm_ranks(3, [](ProcessGroup& group) { muster::share_micro_batches(8, &group); });
  check_each_contains(errors, "both are powers of two");
  ReducerOptions options;
  options.deterministic_micro_batches = 8;
  Reducer reducer(kModel, nullptr, options);
  CHECK_THROWS_WITH(reducer.begin_step(1), Contains("has 8 micro-batches"));
  options.hook = muster::make_half_hook(muster::DataType::bf16);
  CHECK_THROWS_AS(Reducer(kModel, nullptr, options), muster::Error);
}

}  // namespace deterministic_test
