// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/compression.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "rendezvous/base/philox.hpp"
#include "tests/support/shm_ranks.hpp"
#include "worker_sdk/parallel/reducer.hpp"

#include <cmath>

namespace compression_test {

using muster::DataType;
using muster::ProcessGroup;
using muster::Reducer;
using muster::ReducerOptions;
using muster::test::run_shm_ranks;

namespace {

const std::vector<muster::ParameterSpec> kModel = {{"a", {40}}, {"b", {3, 500}}, {"c", {100}}};
constexpr std::int64_t kSamples = 300;

/// Sums over the samples of a rank, so large that f16 could not hold their sum.
float gradient(int rank, std::size_t parameter, std::size_t k) {
  muster::RandomStream random(3, static_cast<std::uint64_t>(rank) << 32 | parameter << 16 | k);
  return (random.unit() - 0.25F) * 60000.0F;
}

/// Largest error of a reduced gradient, as a share of the sum of the sizes that went into it.
double worst_error(ProcessGroup& group, DataType wire) {
  ReducerOptions options;
  options.first_bucket_bytes = 256;
  options.bucket_bytes = 1024;
  options.hook = muster::make_half_hook(wire);
  Reducer reducer(kModel, &group, options);
  reducer.begin_step(kSamples);
  for (std::size_t i = kModel.size(); i-- > 0;) {
    for (std::size_t k = 0; k < kModel[i].elements(); ++k)
      reducer.gradient(i)[k] = gradient(group.rank(), i, k);
    reducer.gradient_ready(i);
  }
  if (reducer.finish_step() != kSamples * group.size()) throw std::runtime_error("wrong number of samples");
  double worst = 0;
  for (std::size_t i = 0; i < kModel.size(); ++i)
    for (std::size_t k = 0; k < kModel[i].elements(); ++k) {
      double sum = 0;
      double size = 0;
      for (int rank = 0; rank < group.size(); ++rank) {
        sum += gradient(rank, i, k);
        size += std::abs(gradient(rank, i, k));
      }
      worst = std::max(worst, std::abs(reducer.gradient(i)[k] - sum) / size);
    }
  return worst;
}

}  // namespace

TEST_CASE("Gradients in 16 bits are right to their precision, and do not overflow") {
  for (const int ranks : {2, 3}) {
    double bf16 = 1;
    double f16 = 1;
    const auto errors = run_shm_ranks(ranks, [&](ProcessGroup& group) {
      const double wide = worst_error(group, DataType::bf16);
      const double narrow = worst_error(group, DataType::f16);
      if (group.rank() == 0) {
        bf16 = wide;
        f16 = narrow;
      }
    });
    CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
    // Rounded once on the way in and once on the way out: two halves of the last place, whatever the ranks.
    CHECK(bf16 <= 0x1p-7);
    CHECK(bf16 > 0x1p-10);
    CHECK(f16 <= 0x1p-10);
    CHECK(f16 > 0x1p-13);
  }
}

TEST_CASE("Ranks that compress differently are told apart at the start") {
  const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
    ReducerOptions options;
    if (group.rank() == 1) options.hook = muster::make_half_hook(DataType::bf16);
    Reducer reducer(kModel, &group, options);
  });
  for (const std::string& error : errors)
    CHECK(error.find("summed by all_reduce in bf16") != std::string::npos);
}

TEST_CASE("Only formats of 16 bits compress") {
  CHECK_THROWS_AS(muster::make_half_hook(DataType::f64), muster::Error);
}

}  // namespace compression_test
