// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/power_sgd.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "rendezvous/base/philox.hpp"
#include "tests/support/shm_ranks.hpp"
#include "worker_sdk/parallel/reducer.hpp"

#include <cmath>
#include <map>

namespace power_sgd_test {

using muster::PowerSgdOptions;
using muster::ProcessGroup;
using muster::Reducer;
using muster::ReducerOptions;
using muster::test::run_shm_ranks;

namespace {

/// One matrix, one vector, and a matrix too small to gain anything.
const std::vector<muster::ParameterSpec> kModel = {{"w", {24, 4, 8}}, {"b", {24}}, {"small", {2, 3}}};

float draw(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  muster::RandomStream random(5, a << 40 | b << 20 | c);
  return random.unit() - 0.5F;
}

ReducerOptions options_with(const std::shared_ptr<muster::BucketHook>& hook) {
  ReducerOptions options;
  options.hook = hook;
  options.first_bucket_bytes = 64;
  return options;
}

std::shared_ptr<muster::BucketHook> make_hook(int rank, std::int64_t start = 0) {
  PowerSgdOptions options;
  options.rank = rank;
  options.start_step = start;
  return muster::make_power_sgd_hook(options);
}

void fill(Reducer& reducer, const std::function<float(std::size_t parameter, std::size_t k)>& value) {
  for (std::size_t i = kModel.size(); i-- > 0;) {
    for (std::size_t k = 0; k < kModel[i].elements(); ++k) reducer.gradient(i)[k] = value(i, k);
    reducer.gradient_ready(i);
  }
}

std::span<float> state(muster::BucketHook& hook, const std::string& name) {
  for (const muster::HookState& entry : hook.state())
    if (entry.name == name) return entry.values;
  throw std::runtime_error("no state " + name);
}

/// Steps of `rank_count` ranks with uneven batches; returns, for one rank, its applied mean gradients summed
/// over the steps, the true ones, and its error at the end.
struct Sums {
  std::vector<double> applied, wanted, error;
};

Sums run_uneven_steps(ProcessGroup& group, int steps) {
  const auto hook = make_hook(1);
  Reducer reducer(kModel, &group, options_with(hook));
  Sums sums{std::vector<double>(reducer.elements()), std::vector<double>(reducer.elements()), {}};
  const auto samples_of = [&](int rank, int step) { return (rank * 5 + step * 3) % 7; };
  const auto value = [](int rank, int step, std::size_t i, std::size_t k) {
    return draw(static_cast<std::uint64_t>(rank * 100 + step), i, k);
  };
  for (int step = 0; step < steps; ++step) {
    const int mine = samples_of(group.rank(), step);
    reducer.begin_step(mine);
    fill(reducer, [&](std::size_t i, std::size_t k) {
      return static_cast<float>(mine) * value(group.rank(), step, i, k);
    });
    const auto samples = static_cast<double>(reducer.finish_step());
    for (std::size_t i = 0; i < kModel.size(); ++i)
      for (std::size_t k = 0; k < kModel[i].elements(); ++k) {
        const std::size_t at = reducer.offset(i) + k;
        sums.applied[at] += reducer.gradients()[at] / samples;
        for (int rank = 0; rank < group.size(); ++rank)
          sums.wanted[at] += static_cast<double>(samples_of(rank, step)) * value(rank, step, i, k) / samples;
      }
  }
  const auto error = state(*hook, "powersgd.error");
  sums.error.assign(error.begin(), error.end());
  return sums;
}

}  // namespace

TEST_CASE("The ranks still hold what low-rank steps leave out, with uneven and empty batches") {
  std::vector<Sums> ranks(3);
  const auto errors = run_shm_ranks(3, [&](ProcessGroup& group) {
    ranks[static_cast<std::size_t>(group.rank())] = run_uneven_steps(group, 12);
  });
  REQUIRE(errors == std::vector<std::string>(3));
  double largest = 0;
  double left = 0;
  for (std::size_t i = 0; i < ranks[0].applied.size(); ++i) {
    CHECK(ranks[0].applied[i] == ranks[1].applied[i]);
    CHECK(ranks[0].applied[i] == ranks[2].applied[i]);
    const double error = ranks[0].error[i] + ranks[1].error[i] + ranks[2].error[i];
    left = std::max(left, std::abs(error));
    largest = std::max(largest, std::abs(ranks[0].wanted[i] - ranks[0].applied[i] - error));
  }
  // Something was left out, and it balances.
  CHECK(left > 0.1);
  CHECK(largest < 1e-5);
}

TEST_CASE("A gradient of low rank travels whole, once the factors are warm") {
  const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
    const auto hook = make_hook(2);
    Reducer reducer(kModel, &group, options_with(hook));
    const auto value = [](std::size_t i, std::size_t k) {
      const std::size_t columns = i == 0 ? 32 : kModel[i].elements();
      const std::size_t row = k / columns;
      const std::size_t column = k % columns;
      return draw(1, i, row) * draw(2, i, column) + 0.1F * draw(3, i, row) * draw(4, i, column);
    };
    for (int step = 0; step < 3; ++step) {
      reducer.begin_step(1);
      fill(reducer, value);
      reducer.finish_step();
    }
    for (std::size_t i = 0; i < kModel.size(); ++i)
      for (std::size_t k = 0; k < kModel[i].elements(); ++k)
        if (std::abs(reducer.gradient(i)[k] - 2 * value(i, k)) > 1e-5F)
          throw std::runtime_error("not what was given");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("A parameter without gradient for a while comes back") {
  const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
    Reducer reducer(kModel, &group, options_with(make_hook(1)));
    for (int step = 0; step < 4; ++step) {
      reducer.begin_step(1);
      fill(reducer, [&](std::size_t, std::size_t) { return step < 2 ? 0.0F : 1.0F; });
      reducer.finish_step();
    }
    if (std::abs(reducer.gradient(0)[5] - 2) > 1e-4F) throw std::runtime_error("it stayed away");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("Least squares by low-rank steps reaches the solution") {
  // Rows x of one rank each; the loss is |W x - T x|^2 / 2 over random x, T of full rank.
  std::map<int, double> distance;
  const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
    const std::vector<muster::ParameterSpec> model = {{"w", {16, 16}}};
    const auto hook = make_hook(1, 2);
    Reducer reducer(model, &group, options_with(hook));
    std::vector<float> w(256);
    const auto target = [](std::size_t i) { return draw(9, 0, i); };
    for (int step = 0; step < 600; ++step) {
      std::vector<float> x(16);
      for (std::size_t j = 0; j < 16; ++j)
        x[j] = 2 * draw(static_cast<std::uint64_t>(step), 1 + static_cast<std::uint64_t>(group.rank()), j);
      reducer.begin_step(1);
      for (std::size_t i = 0; i < 16; ++i) {
        float residual = 0;
        for (std::size_t j = 0; j < 16; ++j) residual += (w[i * 16 + j] - target(i * 16 + j)) * x[j];
        for (std::size_t j = 0; j < 16; ++j) reducer.gradient(0)[i * 16 + j] = residual * x[j];
      }
      reducer.gradient_ready(0);
      const auto samples = static_cast<float>(reducer.finish_step());
      for (std::size_t i = 0; i < 256; ++i) w[i] -= 0.1F * reducer.gradient(0)[i] / samples;
    }
    double worst = 0;
    for (std::size_t i = 0; i < 256; ++i) worst = std::max(worst, std::abs(double{w[i]} - target(i)));
    if (group.rank() == 0) distance[0] = worst;
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK(distance[0] < 0.02);
}

TEST_CASE("A hook that is given its state goes on where it stopped, bit for bit") {
  std::vector<std::vector<float>> whole(2);
  std::vector<std::vector<float>> resumed(2);
  const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    std::map<std::string, std::vector<float>> saved;
    for (const bool resume : {false, true}) {
      const auto hook = make_hook(1, 1);
      Reducer reducer(kModel, &group, options_with(hook));
      if (resume)
        for (const muster::HookState& entry : hook->state())
          std::copy(saved[entry.name].begin(), saved[entry.name].end(), entry.values.begin());
      for (int step = resume ? 3 : 0; step < 6; ++step) {
        if (step == 3 && !resume)
          for (const muster::HookState& entry : hook->state())
            saved[entry.name].assign(entry.values.begin(), entry.values.end());
        reducer.begin_step(2);
        fill(reducer, [&](std::size_t i, std::size_t k) {
          return draw(static_cast<std::uint64_t>(step) * 2 + rank, i, k);
        });
        reducer.finish_step();
      }
      (resume ? resumed : whole)[rank].assign(reducer.gradients(), reducer.gradients() + reducer.elements());
    }
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK(whole[0] == whole[1]);
  CHECK(whole == resumed);
}

TEST_CASE("PowerSGD with impossible options is refused") {
  PowerSgdOptions options;
  options.rank = 0;
  CHECK_THROWS_AS(muster::make_power_sgd_hook(options), muster::Error);
  options = {};
  options.largest_share = 2;
  CHECK_THROWS_AS(muster::make_power_sgd_hook(options), muster::Error);
}

}  // namespace power_sgd_test
