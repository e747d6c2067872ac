// SPDX-License-Identifier: Apache-2.0
// Many small worlds drawn at random: models, buckets, shares of samples, micro-batches, orders of readiness,
// options, and ranks that give up anywhere. Either every rank has the right sums, or every rank has an error.
#include "catch.hpp"
#include "rendezvous/base/philox.hpp"
#include "tests/support/thread_group.hpp"
#include "worker_sdk/parallel/reducer.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

using muster::ParameterSpec;
using muster::RandomStream;
using muster::Reducer;
using muster::ReducerOptions;
using muster::test::run_ranks;
using muster::test::ThreadGroup;

namespace {

struct Plan {
  std::uint64_t seed = 0;
  int ranks = 1;
  int steps = 1;
  std::vector<ParameterSpec> model;
  ReducerOptions options;
  /// Rank and number of gradient_ready() calls after which it gives up.
  std::optional<std::pair<int, std::uint32_t>> failure;
};

Plan draw(std::uint64_t seed) {
  RandomStream random(seed, 1);
  Plan plan;
  plan.seed = seed;
  plan.ranks = 1 + static_cast<int>(random.below(4));
  plan.steps = 1 + static_cast<int>(random.below(3));
  const std::uint32_t parameters = 1 + random.below(6);
  for (std::uint32_t i = 0; i < parameters; ++i) {
    ParameterSpec spec;
    spec.name = "p" + std::to_string(i);
    spec.shape = {1 + static_cast<std::int64_t>(random.below(40))};
    plan.model.push_back(std::move(spec));
  }
  plan.options.first_bucket_bytes = 1 + random.below(300);
  plan.options.bucket_bytes = 1 + random.below(300);
  plan.options.last_bucket_bytes = random.below(300);
  if (random.below(3) == 0) plan.options.max_norm = 1;
  if (random.below(3) == 0)
    plan.failure = {static_cast<int>(random.below(static_cast<std::uint32_t>(plan.ranks))),
                    random.below(parameters * static_cast<std::uint32_t>(plan.steps))};
  return plan;
}

/// What a rank does in a step: samples of its micro-batches, the last one's at the end.
std::vector<std::int64_t> samples_of(const Plan& plan, int rank, int step) {
  RandomStream random(plan.seed, 100 + static_cast<std::uint64_t>(step * 10 + rank));
  std::vector<std::int64_t> samples(1 + random.below(3));
  for (std::int64_t& count : samples) count = random.below(4);
  return samples;
}

class Rank {
 public:
  Rank(const Plan& plan, ThreadGroup& group) : plan_(plan), group_(group), order_(plan.model.size()) {
    ReducerOptions options = plan.options;
    options.bucket_step = [this](std::size_t begin, std::size_t end, float) { stepped_ += end - begin; };
    reducer_.emplace(plan.model, &group, options);
  }

  void run() {
    for (int step = 0; step < plan_.steps; ++step) {
      const auto parts = samples_of(plan_, group_.rank(), step);
      for (std::size_t k = 0; k < parts.size(); ++k) {
        const bool last = k + 1 == parts.size();
        last ? reducer_->begin_step(parts[k]) : reducer_->begin_micro_batch(parts[k]);
        backward(parts[k], static_cast<std::uint64_t>(step) * 10 + k);
        if (!last) reducer_->finish_micro_batch();
      }
      check(step, reducer_->finish_step());
    }
  }

 private:
  void backward(std::int64_t samples, std::uint64_t stream) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    RandomStream random(plan_.seed, 10000 + stream * 10 + static_cast<std::uint64_t>(group_.rank()));
    for (std::size_t i = order_.size(); i > 1; --i)
      std::swap(order_[i - 1], order_[random.below(static_cast<std::uint32_t>(i))]);
    for (const std::size_t i : order_) {
      if (plan_.failure && plan_.failure->first == group_.rank() && calls_++ == plan_.failure->second)
        throw std::runtime_error("gave up");
      if (random.below(4) == 0) std::this_thread::yield();
      if (samples == 0) {
        reducer_->mark_unused(i);
      } else {
        std::fill_n(reducer_->gradient(i), plan_.model[i].elements(),
                    static_cast<float>(samples) * static_cast<float>(i + 1));
        reducer_->gradient_ready(i);
      }
    }
  }

  void check(int step, std::int64_t total) {
    std::int64_t wanted = 0;
    for (int rank = 0; rank < plan_.ranks; ++rank)
      for (const std::int64_t part : samples_of(plan_, rank, step)) wanted += part;
    if (total != wanted) throw std::runtime_error("wrong number of samples");
    for (std::size_t i = 0; i < plan_.model.size(); ++i)
      for (std::size_t k = 0; k < plan_.model[i].elements(); ++k)
        if (reducer_->gradient(i)[k] != static_cast<float>(wanted) * static_cast<float>(i + 1))
          throw std::runtime_error("wrong sum");
    if (wanted > 0) expected_ += reducer_->elements();
    if (stepped_ != expected_) throw std::runtime_error("not every element was stepped once");
  }

  const Plan& plan_;
  ThreadGroup& group_;
  std::vector<std::size_t> order_;
  std::uint32_t calls_ = 0;
  std::size_t stepped_ = 0;
  std::size_t expected_ = 0;
  std::optional<Reducer> reducer_;
};

}  // namespace

TEST_CASE("Steps drawn at random end right on all ranks, or with an error on all") {
#ifdef MUSTER_SANITIZED
  constexpr std::uint64_t kWorlds = 150;
#else
  constexpr std::uint64_t kWorlds = 600;
#endif
  int failed = 0;
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    const Plan plan = draw(seed);
    const auto errors = run_ranks(plan.ranks, [&](ThreadGroup& group) { Rank(plan, group).run(); });
    INFO("seed " << seed << ", " << plan.ranks << " ranks: " << errors[0]);
    const auto right = std::count(errors.begin(), errors.end(), "");
    if (!plan.failure) {
      REQUIRE(right == plan.ranks);
      continue;
    }
    ++failed;
    // Nobody gets past the step in which a rank gave up.
    REQUIRE(right == 0);
    REQUIRE(errors[static_cast<std::size_t>(plan.failure->first)] == "gave up");
  }
  CHECK(failed > 20);
}
