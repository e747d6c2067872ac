// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/reducer.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/support/thread_group.hpp"
#include "tests/unit/worker_sdk/parallel/small_model.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"

namespace reducer_test {

using muster::ParameterSpec;
using muster::Reducer;
using muster::ReducerOptions;
using muster::test::backward;
using muster::test::kModel;
using muster::test::run_ranks;
using muster::test::small_buckets;
using muster::test::ThreadGroup;

TEST_CASE("Buckets hold the parameters last first, each on its own cache line") {
  const auto layout = muster::parallel::plan_buckets(kModel, small_buckets());
  REQUIRE(layout.buckets.size() == 3);
  CHECK(layout.buckets[0].parameters == std::vector<std::size_t>{3});
  CHECK(layout.buckets[1].parameters == std::vector<std::size_t>{2});
  CHECK(layout.buckets[2].parameters == std::vector<std::size_t>{1, 0});
  CHECK(layout.offsets == std::vector<std::size_t>{144, 128, 16, 0});
  CHECK(layout.elements == 192);
  CHECK(layout.buckets[2].elements == 192 - 128);
  CHECK(muster::parallel::plan_buckets(kModel, {}).buckets.size() == 1);
}

TEST_CASE("Every rank reduces the buckets in the same order, whatever becomes ready first") {
  std::vector<std::vector<std::size_t>> calls(3);
  const std::vector<std::vector<std::size_t>> orders = {{3, 2, 1, 0}, {0, 1, 2, 3}, {1, 3, 0, 2}};
  const auto errors = run_ranks(3, [&](ThreadGroup& group) {
    Reducer reducer(kModel, &group, small_buckets());
    group.reduced.clear();
    reducer.begin_step(1);
    backward(reducer, 0, 1, orders[static_cast<std::size_t>(group.rank())]);
    reducer.finish_step();
    calls[static_cast<std::size_t>(group.rank())] = group.reduced;
  });
  CHECK(errors == std::vector<std::string>(3));
  // The header of 16 floats travels with the first.
  for (const auto& mine : calls) CHECK(mine == std::vector<std::size_t>{16 + 16, 112, 64});
}

TEST_CASE("Unused parameters get a gradient of zero") {
  Reducer reducer(kModel, nullptr);
  reducer.begin_step(1);
  for (std::size_t i = 0; i < 4; ++i) {
    *reducer.gradient(i) = 5;
    reducer.mark_unused(i);
    CHECK(*reducer.gradient(i) == 0);
  }
  CHECK(reducer.finish_step() == 1);
}

TEST_CASE("Different models are an error on every rank that names the first difference") {
  auto errors = run_ranks(3, [](ThreadGroup& group) {
    std::vector<ParameterSpec> model = kModel;
    if (group.rank() > 0) model[1].shape = {5, 3};
    Reducer reducer(model, &group);
  });
  check_each_contains(errors, "parameter 1: rank 0 has b [3, 5], rank 1 has b [5, 3]");

  errors = run_ranks(2, [](ThreadGroup& group) {
    std::vector<ParameterSpec> model = kModel;
    if (group.rank() == 1) model.pop_back();
    Reducer reducer(model, &group);
  });
  check_each_contains(errors, "parameter 3: rank 0 has d [1], rank 1 has no more parameters");

  errors = run_ranks(2, [](ThreadGroup& group) {
    ReducerOptions options;
    if (group.rank() == 1) options.bucket_bytes = 4096;
    Reducer reducer(kModel, &group, options);
  });
  check_each_contains(errors, "buckets of 1048576 and 4096 bytes");
}

TEST_CASE("A step that is not followed through is an error that names the parameter") {
  Reducer reducer(kModel, nullptr);
  CHECK_THROWS_AS(reducer.gradient_ready(0), muster::Error);
  CHECK_THROWS_AS(reducer.begin_step(-1), muster::Error);
  CHECK_THROWS_AS(reducer.begin_step(1 << 24), muster::Error);
  reducer.begin_step(1);
  CHECK_THROWS_AS(reducer.begin_step(1), muster::Error);
  reducer.gradient_ready(0);
  CHECK_THROWS_AS(reducer.gradient_ready(0), muster::Error);
  CHECK_THROWS_AS(reducer.gradient_ready(4), muster::Error);
  reducer.gradient_ready(1);
  CHECK_THROWS_WITH(reducer.finish_step(), Contains("parameter c has no gradient"));
}

TEST_CASE("A rank that gives up in a step does not leave the others waiting") {
  const auto errors = run_ranks(2, [](ThreadGroup& group) {
    Reducer reducer(kModel, &group);
    reducer.begin_step(1);
    if (group.rank() == 1) throw std::runtime_error("broken input");
    for (std::size_t i = 0; i < 4; ++i) reducer.mark_unused(i);
    reducer.finish_step();
  });
  CHECK(errors[1] == "broken input");
  CHECK(contains(errors[0], "rank 1 gave up in the middle of a step"));
}

TEST_CASE("Models that cannot be are refused") {
  CHECK_THROWS_AS(Reducer({}, nullptr), muster::Error);
  CHECK_THROWS_AS(Reducer({{"w", {0}}}, nullptr), muster::Error);
  CHECK_THROWS_AS(Reducer({{"w", {-4}}}, nullptr), muster::Error);
  CHECK_THROWS_AS(Reducer({{"w", {std::int64_t{1} << 40, std::int64_t{1} << 40}}}, nullptr), muster::Error);
}

}  // namespace reducer_test
