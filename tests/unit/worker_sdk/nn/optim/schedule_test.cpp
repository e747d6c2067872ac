// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/optim/schedule.hpp"

#include "catch.hpp"
#include "tests/support/error_of.hpp"

using muster::optim::Schedule;
using muster::optim::ScheduleKind;
using muster::optim::ScheduleOptions;

namespace {

ScheduleOptions over(std::int64_t steps, ScheduleKind kind) {
  ScheduleOptions options;
  options.kind = kind;
  options.rate = 0.8;
  options.total_steps = steps;
  return options;
}

std::string refused(const ScheduleOptions& options) {
  return muster::test::error_of([&] { const Schedule schedule(options); });
}

}  // namespace

TEST_CASE("A constant rate is constant, and beyond the end it is the last") {
  const Schedule schedule(over(10, ScheduleKind::constant));
  CHECK(schedule.at(0) == 0.8F);
  CHECK(schedule.at(1000) == 0.8F);
}

TEST_CASE("Steps fall by gamma after every so many steps") {
  ScheduleOptions options = over(100, ScheduleKind::step);
  options.step_steps = 30;
  const Schedule schedule(options);
  CHECK(schedule.at(29) == 0.8F);
  CHECK(schedule.at(30) == Approx(0.08));
  CHECK(schedule.at(90) == Approx(0.0008));
}

TEST_CASE("A cosine begins at the rate after the warm-up and nears its minimum") {
  ScheduleOptions options = over(110, ScheduleKind::cosine);
  options.warmup_steps = 10;
  options.warmup_start = 0.25;
  options.minimum = 0.2;
  const Schedule schedule(options);
  CHECK(schedule.at(0) == Approx(0.2));
  CHECK(schedule.at(5) == Approx(0.5));
  CHECK(schedule.at(10) == Approx(0.8));
  CHECK(schedule.at(60) == Approx(0.5));
  CHECK(schedule.at(109) == Approx(0.2).epsilon(1e-3));
}

TEST_CASE("One cycle peaks once and ends near zero") {
  const Schedule schedule(over(100, ScheduleKind::one_cycle));
  CHECK(schedule.at(0) == Approx(0.8 / 25));
  CHECK(schedule.at(29) == Approx(0.8));
  CHECK(schedule.at(99) == Approx(0.8 / 25 / 1e4));
}

TEST_CASE("The linear scaling rule scales, and its warm-up starts at the rate for 256") {
  CHECK(muster::optim::scaled_rate(0.1, 8192) == Approx(3.2));
  CHECK(muster::optim::scaled_warmup_start(8192) == Approx(1.0 / 32));
  CHECK(muster::optim::scaled_warmup_start(128) == 0.1);
}

TEST_CASE("A schedule that cannot be is an error") {
  ScheduleOptions options = over(10, ScheduleKind::cosine);
  options.warmup_steps = 10;
  CHECK(refused(options).find("the whole run") != std::string::npos);
  options = over(10, ScheduleKind::one_cycle);
  options.warmup_steps = 2;
  CHECK(refused(options).find("of its own") != std::string::npos);
  options = over(10, ScheduleKind::cosine);
  options.minimum = 1;
  CHECK(refused(options).find("minimum") != std::string::npos);
  CHECK_THROWS_AS(muster::optim::schedule_kind("linear"), muster::Error);
  CHECK(muster::optim::schedule_kind("one-cycle") == ScheduleKind::one_cycle);
}
