// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/statistics_exchange.hpp"

#include "catch.hpp"
#include "tests/support/shm_ranks.hpp"
#include "worker_sdk/parallel/reducer.hpp"

#include <cmath>

using muster::ProcessGroup;
using muster::test::run_shm_ranks;

TEST_CASE("Statistics of uneven and empty batches are those of all samples") {
  // Samples far from zero: in f32 the variance would be lost.
  const auto sample = [](int i) { return 10000.0 + 0.001 * i * i; };
  const std::vector<int> cut = {0, 5, 5, 17, 18};
  double mean = 0;
  for (int i = 0; i < 18; ++i) mean += sample(i) / 18;
  double variance = 0;
  for (int i = 0; i < 18; ++i) variance += (sample(i) - mean) * (sample(i) - mean) / 18;

  std::vector<std::vector<double>> results(4);
  const auto errors = run_shm_ranks(4, [&](ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    const auto exchange = muster::make_group_statistics(&group);
    std::vector<double> sums(3);
    for (int i = cut[rank]; i < cut[rank + 1]; ++i) {
      sums[0] += sample(i);
      sums[1] += sample(i) * sample(i);
      sums[2] += 1;
    }
    exchange->sum(sums);
    results[rank] = sums;
  });
  CHECK(errors == std::vector<std::string>(4));
  for (const auto& sums : results) {
    CHECK(sums == results[0]);
    CHECK(sums[2] == 18);
    const double found = sums[0] / 18;
    CHECK(std::abs(found - mean) < 1e-9);
    CHECK(std::abs(sums[1] / 18 - found * found - variance) < 1e-6);
  }
}

TEST_CASE("Statistics are exchanged while buckets are reduced") {
  const std::vector<muster::ParameterSpec> model(6, {"w", {20000}});
  const auto errors = run_shm_ranks(3, [&](ProcessGroup& group) {
    const auto exchange = muster::make_group_statistics(&group);
    muster::ReducerOptions options;
    options.first_bucket_bytes = options.bucket_bytes = 1;
    muster::Reducer reducer(model, &group, options);
    for (int step = 0; step < 20; ++step) {
      reducer.begin_step(1);
      for (std::size_t i = 6; i-- > 0;) {
        std::fill_n(reducer.gradient(i), 20000, static_cast<float>(step));
        reducer.gradient_ready(i);
        std::vector<double> values(40, static_cast<double>(i) + group.rank());
        exchange->sum(values);
        if (values[7] != 3.0 * static_cast<double>(i) + 3) throw std::runtime_error("wrong statistics");
      }
      reducer.finish_step();
      if (reducer.gradient(3)[19999] != static_cast<float>(3 * step))
        throw std::runtime_error("wrong gradient");
    }
  });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("A rank of its own leaves its statistics") {
  std::vector<double> values = {3, 4};
  muster::make_group_statistics(nullptr)->sum(values);
  CHECK(values == std::vector<double>{3, 4});
}
