// SPDX-License-Identifier: Apache-2.0
// What a step does beside the sum: accumulation, optimizer per bucket, clipping, tallies, times, hooks.
#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/support/shm_ranks.hpp"
#include "tests/support/thread_group.hpp"
#include "tests/unit/worker_sdk/parallel/small_model.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"

#include <cmath>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

namespace steps_test {

using muster::BucketView;
using muster::ParameterSpec;
using muster::ProcessGroup;
using muster::Reducer;
using muster::ReducerOptions;
using muster::test::alone;
using muster::test::arena_of;
using muster::test::backward;
using muster::test::kModel;
using muster::test::run_ranks;
using muster::test::run_shm_ranks;
using muster::test::small_buckets;
using muster::test::ThreadGroup;

TEST_CASE("Accumulated micro-batches, uneven and empty ones, equal one rank on all samples") {
  // For each rank the cuts of its micro-batches; the last one is reduced.
  const std::vector<std::vector<std::int64_t>> cuts = {{0, 4, 9, 11}, {11, 11, 20}, {20, 20}, {20, 30, 30}};
  const std::vector<float> wanted = alone(0, 30);
  const auto errors = run_ranks(4, [&](ThreadGroup& group) {
    Reducer reducer(kModel, &group, small_buckets());
    const auto& cut = cuts[static_cast<std::size_t>(group.rank())];
    for (int step = 0; step < 3; ++step) {
      const int before = group.all_reduces;
      for (std::size_t k = 0; k + 2 < cut.size(); ++k) {
        reducer.begin_micro_batch(cut[k + 1] - cut[k]);
        backward(reducer, cut[k], cut[k + 1]);
        reducer.finish_micro_batch();
      }
      if (group.all_reduces != before) throw std::runtime_error("a micro-batch called the group");
      reducer.begin_step(cut.back() - cut[cut.size() - 2]);
      backward(reducer, cut[cut.size() - 2], cut.back());
      if (reducer.finish_step() != 30) throw std::runtime_error("wrong number of samples");
      if (arena_of(reducer) != wanted) throw std::runtime_error("the gradients differ");
    }
  });
  CHECK(errors == std::vector<std::string>(4));
}

TEST_CASE("Micro-batches that are not followed through are errors") {
  Reducer reducer(kModel, nullptr);
  CHECK_THROWS_AS(reducer.finish_micro_batch(), muster::Error);
  reducer.begin_micro_batch((1 << 24) - 1);
  CHECK_THROWS_AS(reducer.begin_step(1), muster::Error);
  CHECK_THROWS_AS(reducer.finish_step(), muster::Error);
  CHECK_THROWS_AS(reducer.finish_micro_batch(), muster::Error);
  for (std::size_t i = 0; i < 4; ++i) reducer.mark_unused(i);
  reducer.finish_micro_batch();
  CHECK_THROWS_AS(reducer.begin_step(1), muster::Error);  // 2^24 samples in all
  reducer.begin_step(0);
}

TEST_CASE("Each bucket is stepped once, in order, with one part of the samples") {
  for (const int ranks : {1, 3}) {
    const auto errors = run_ranks(ranks, [&](ThreadGroup& group) {
      std::vector<std::size_t> ranges;
      std::vector<float> seen;
      Reducer* made = nullptr;
      ReducerOptions options = small_buckets();
      options.bucket_step = [&](std::size_t begin, std::size_t end, float scale) {
        ranges.insert(ranges.end(), {begin, end});
        for (std::size_t i = begin; i < end; ++i) seen.push_back(made->gradients()[i] * scale);
      };
      Reducer reducer(kModel, &group, options);
      made = &reducer;
      reducer.begin_step(group.rank() == 0 ? 4 : 0);
      backward(reducer, 0, group.rank() == 0 ? 4 : 0);
      reducer.finish_step();
      if (ranges != std::vector<std::size_t>{0, 16, 16, 128, 128, 192}) throw std::runtime_error("ranges");
      std::vector<float> wanted = alone(0, 4);
      for (float& value : wanted) value *= 0.25F;
      if (seen != wanted) throw std::runtime_error("values");
    });
    CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
  }
}

TEST_CASE("A bucket is stepped while later gradients are still being computed") {
  const auto errors = run_ranks(2, [&](ThreadGroup& group) {
    std::atomic<int> steps{0};
    ReducerOptions options = small_buckets();
    options.bucket_step = [&](std::size_t, std::size_t, float) { ++steps; };
    Reducer reducer(kModel, &group, options);
    reducer.begin_step(1);
    reducer.mark_unused(3);
    // The deadline is only for the failing case.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (steps == 0 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    if (steps != 1) throw std::runtime_error("not stepped before the other gradients were ready");
    for (const std::size_t i : {2U, 1U, 0U}) reducer.mark_unused(i);
    reducer.finish_step();
    if (steps != 3) throw std::runtime_error("a bucket was left out");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("Nothing is stepped without any sample") {
  int steps = 0;
  ReducerOptions options = small_buckets();
  options.bucket_step = [&](std::size_t, std::size_t, float) { ++steps; };
  options.max_norm = 1;
  Reducer reducer(kModel, nullptr, options);
  reducer.begin_step(0);
  backward(reducer, 0, 0);
  CHECK(reducer.finish_step() == 0);
  CHECK(steps == 0);
  CHECK(reducer.gradient_norm() == 0);
}

TEST_CASE("An optimizer step that fails on one rank ends the step on all") {
  const auto errors = run_ranks(2, [](ThreadGroup& group) {
    ReducerOptions options = small_buckets();
    options.bucket_step = [&](std::size_t begin, std::size_t, float) {
      if (group.rank() == 1 && begin == 16) throw std::runtime_error("no memory for momentum");
    };
    Reducer reducer(kModel, &group, options);
    reducer.begin_step(1);
    backward(reducer, 0, 1);
    reducer.finish_step();
  });
  CHECK(errors[1] == "no memory for momentum");
  CHECK(errors[0].find("rank 1 failed while a bucket of gradients was reduced: no memory for momentum") !=
        std::string::npos);
}

TEST_CASE("An optimizer step that fails in a world of one comes out of finish_step()") {
  ReducerOptions options = small_buckets();
  options.bucket_step = [](std::size_t begin, std::size_t, float) {
    if (begin == 16) throw std::runtime_error("no memory for momentum");
  };
  Reducer reducer(kModel, nullptr, options);
  reducer.begin_step(1);
  backward(reducer, 0, 1);
  CHECK_THROWS_AS(reducer.finish_step(), std::runtime_error);
  CHECK(reducer.has_failed());
}

TEST_CASE("The norm is that of the mean gradient over all ranks, and steps are scaled to it") {
  const std::vector<float> sum = alone(0, 10);
  double squares = 0;
  for (const float value : sum) squares += double{value} * value;
  const double norm = std::sqrt(squares) / 10;
  for (const double limit : {norm / 3, norm * 2}) {
    const auto errors = run_ranks(2, [&](ThreadGroup& group) {
      std::vector<std::size_t> ranges;
      float scale = 0;
      const auto caller = std::this_thread::get_id();
      ReducerOptions options = small_buckets();
      options.max_norm = limit;
      options.bucket_step = [&](std::size_t begin, std::size_t end, float factor) {
        if (std::this_thread::get_id() != caller) throw std::runtime_error("before the norm was known");
        ranges.insert(ranges.end(), {begin, end});
        scale = factor;
      };
      Reducer reducer(kModel, &group, options);
      const bool first = group.rank() == 0;
      reducer.begin_step(first ? 7 : 3);
      backward(reducer, first ? 0 : 7, first ? 7 : 10);
      reducer.finish_step();
      if (ranges != std::vector<std::size_t>{0, 16, 16, 128, 128, 192}) throw std::runtime_error("ranges");
      if (std::abs(reducer.gradient_norm() - norm) > 1e-12 * norm) throw std::runtime_error("norm");
      const double wanted = limit < norm ? limit / (norm + 1e-6) : 1.0;
      if (std::abs(reducer.clip_scale() - wanted) > 1e-6) throw std::runtime_error("clip_scale");
      if (std::abs(scale - wanted / 10) > 1e-7) throw std::runtime_error("scale");
    });
    CHECK(errors == std::vector<std::string>(2));
  }
}

TEST_CASE("The norm has the same bits whatever the buckets") {
  const std::vector<ParameterSpec> model = {{"a", {5000}}, {"b", {40}}, {"c", {9000}}, {"d", {7, 11}}};
  const auto norm = [&](std::size_t bucket_bytes) {
    ReducerOptions options;
    options.first_bucket_bytes = options.bucket_bytes = bucket_bytes;
    options.max_norm = 1;
    Reducer reducer(model, nullptr, options);
    reducer.begin_step(3);
    for (std::size_t i = model.size(); i-- > 0;) {
      for (std::size_t k = 0; k < model[i].elements(); ++k)
        reducer.gradient(i)[k] = 1.0F / static_cast<float>(1 + 7 * i + k);
      reducer.gradient_ready(i);
    }
    reducer.finish_step();
    return reducer.gradient_norm();
  };
  const double wanted = norm(4);
  CHECK(wanted > 0);
  for (const std::size_t bucket_bytes : {std::size_t{400}, std::size_t{30'000}, std::size_t{1} << 20})
    CHECK(norm(bucket_bytes) == wanted);
}

TEST_CASE("Ranks that meet before the first sum are timed apart from it, and sum the same") {
  const std::vector<float> wanted = alone(0, 10);
  const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
    ReducerOptions options = small_buckets();
    options.meet_first = true;
    Reducer reducer(kModel, &group, options);
    const bool first = group.rank() == 0;
    reducer.begin_step(first ? 7 : 3);
    backward(reducer, first ? 0 : 7, first ? 7 : 10);
    reducer.finish_step();
    if (arena_of(reducer) != wanted) throw std::runtime_error("sums");
    const muster::StepTiming& timing = reducer.timing();
    if (timing.began > timing.meeting || timing.meeting >= timing.met ||
        timing.met > timing.buckets[0].started)
      throw std::runtime_error("out of order");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("Tallies of all ranks arrive with the step") {
  const auto errors = run_ranks(3, [](ThreadGroup& group) {
    Reducer reducer(kModel, &group, small_buckets());
    for (int step = 0; step < 2; ++step) {
      reducer.set_tally(0, static_cast<float>(group.rank() + step));
      reducer.begin_step(1);
      reducer.set_tally(7, 2);
      backward(reducer, 0, 1);
      reducer.finish_step();
      if (reducer.tally(0) != static_cast<float>(3 + 3 * step) || reducer.tally(7) != 6 ||
          reducer.tally(1) != 0)
        throw std::runtime_error("wrong tallies");
    }
  });
  CHECK(errors == std::vector<std::string>(3));
  Reducer reducer(kModel, nullptr);
  CHECK_THROWS_AS(reducer.set_tally(8, 1), muster::Error);
}

TEST_CASE("Times of a step follow one another") {
  for (const double max_norm : {0.0, 0.5}) {
    const auto errors = run_ranks(2, [&](ThreadGroup& group) {
      ReducerOptions options = small_buckets();
      options.max_norm = max_norm;
      options.bucket_step = [](std::size_t, std::size_t, float) {};
      Reducer reducer(kModel, &group, options);
      reducer.begin_step(1);
      backward(reducer, 0, 1);
      reducer.finish_step();
      const muster::StepTiming& timing = reducer.timing();
      bool right = timing.buckets.size() == 3 && timing.began <= timing.waited &&
                   timing.waited <= timing.finished && timing.communication().count() >= 0 &&
                   timing.optimizer().count() >= 0 && timing.exposed().count() >= 0;
      auto before = timing.began;
      for (const muster::BucketTiming& bucket : timing.buckets) {
        right = right && timing.began <= bucket.ready && bucket.ready <= bucket.started &&
                before <= bucket.started && bucket.started <= bucket.reduced &&
                bucket.reduced <= bucket.stepped && bucket.reduced <= timing.finished;
        before = bucket.reduced;
      }
      if (!right) throw std::runtime_error("out of order");
    });
    CHECK(errors == std::vector<std::string>(2));
  }
}

TEST_CASE("The last bucket is as small as it may be") {
  const std::vector<ParameterSpec> model = {
      {"stem", {100}}, {"one", {1000}}, {"two", {5000}}, {"head", {50}}};
  ReducerOptions options;
  options.last_bucket_bytes = 4000;
  const auto layout = muster::parallel::plan_buckets(model, options);
  REQUIRE(layout.buckets.size() == 2);
  CHECK(layout.buckets[0].parameters == std::vector<std::size_t>{3, 2});
  CHECK(layout.buckets[1].parameters == std::vector<std::size_t>{1, 0});
  options.last_bucket_bytes = 0;
  CHECK(muster::parallel::plan_buckets(model, options).buckets.size() == 1);
}

namespace {

/// Sums as all_reduce does, and writes down what it was asked.
class WatchedHook final : public muster::BucketHook {
 public:
  std::string describe() const override { return "a watched sum"; }

  void prepare(ProcessGroup&, std::span<const BucketView> buckets) override { prepared = buckets.size(); }

  void reduce(ProcessGroup& group, const BucketView& bucket) override {
    seen.push_back(bucket.index);
    samples = bucket.samples;
    if (called) called();
    for (const muster::BucketParameter& parameter : bucket.parameters)
      parameters.push_back(parameter.spec->name + "@" + std::to_string(parameter.offset));
    group.all_reduce(bucket.gradients, bucket.elements, muster::DataType::f32, muster::ReduceOp::sum);
  }

  std::size_t prepared = 0;
  std::vector<std::size_t> seen;
  std::vector<std::string> parameters;
  std::int64_t samples = 0;
  std::function<void()> called;
};

}  // namespace

TEST_CASE("A hook sums each bucket, in order, and knows the samples of all ranks") {
  const std::vector<float> wanted = alone(0, 10);
  const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
    const auto hook = std::make_shared<WatchedHook>();
    ReducerOptions options = small_buckets();
    options.hook = hook;
    Reducer reducer(kModel, &group, options);
    const bool first = group.rank() == 0;
    reducer.begin_step(first ? 10 : 0);
    backward(reducer, 0, first ? 10 : 0);
    if (reducer.finish_step() != 10 || arena_of(reducer) != wanted) throw std::runtime_error("sums");
    if (hook->prepared != 3 || hook->samples != 10) throw std::runtime_error("what the hook is told");
    if (hook->seen != std::vector<std::size_t>{0, 1, 2}) throw std::runtime_error("order");
    if (hook->parameters != std::vector<std::string>{"d@0", "c@0", "b@0", "a@16"})
      throw std::runtime_error("parameters");
    // Nobody has samples: there is nothing to sum.
    reducer.begin_step(0);
    backward(reducer, 0, 0);
    reducer.finish_step();
    if (hook->seen.size() != 3) throw std::runtime_error("called without samples");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("Hooks and steps run on the reducer's thread or in finish_step()") {
  const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
    const auto caller = std::this_thread::get_id();
    bool finishes = false;  // of the caller alone
    bool elsewhere = false;
    std::set<std::thread::id> others;
    const auto look = [&] {
      if (std::this_thread::get_id() != caller)
        others.insert(std::this_thread::get_id());
      else
        elsewhere = elsewhere || !finishes;
    };
    ReducerOptions options = small_buckets();
    const auto hook = std::make_shared<WatchedHook>();
    hook->called = look;
    options.hook = hook;
    options.bucket_step = [&](std::size_t, std::size_t, float) { look(); };
    Reducer reducer(kModel, &group, options);
    for (int step = 0; step < 20; ++step) {
      reducer.begin_step(1);
      backward(reducer, 0, 1);
      finishes = true;
      reducer.finish_step();
      finishes = false;
    }
    if (elsewhere || others.size() > 1) throw std::runtime_error("on a thread that is not said");
  });
  CHECK(errors == std::vector<std::string>(2));
}

}  // namespace steps_test
