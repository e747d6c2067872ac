// SPDX-License-Identifier: Apache-2.0
#include "agent/core/rank_pace.hpp"

#include "catch.hpp"

using namespace muster;
using namespace muster::agent;

namespace {

status::RankStatus at_step(std::uint64_t step, std::uint64_t ms, std::uint64_t calls_ms) {
  status::RankStatus status;
  status.step = step;
  status.step_ns = ms * 1'000'000;
  status.step_calls_ns = calls_ms * 1'000'000;
  return status;
}

}  // namespace

TEST_CASE("A rank's own time is that of its steps without its calls") {
  PaceMeter meter(4, 7);
  CHECK_FALSE(meter.add(at_step(0, 0, 0)));  // it has told no step
  CHECK_FALSE(meter.add(at_step(10, 1000, 300)));
  CHECK_FALSE(meter.add(at_step(10, 1000, 300)));
  const auto pace = meter.add(at_step(14, 1800, 500));
  REQUIRE(pace);
  CHECK(*pace == rendezvous::RankPace{4, 7, 4, 200'000, 150'000});
  CHECK_FALSE(meter.add(at_step(14, 1800, 500)));
  const auto next = meter.add(at_step(15, 1900, 590));
  REQUIRE(next);
  CHECK(*next == rendezvous::RankPace{4, 7, 1, 100'000, 10'000});
}

TEST_CASE(
    "Calls that overlap a step count no longer than the step, and a count that begins anew is no pace") {
  PaceMeter meter(0, 0);
  meter.add(at_step(1, 1000, 0));
  const auto pace = meter.add(at_step(2, 1100, 500));
  REQUIRE(pace);
  CHECK(pace->own_us == 0);
  CHECK_FALSE(meter.add(at_step(1, 1200, 500)));
  const auto after = meter.add(at_step(2, 1300, 550));
  REQUIRE(after);
  CHECK(after->step_us == 100'000);
  CHECK(after->own_us == 50'000);
}

TEST_CASE("What another process wrote is no reason to fail") {
  PaceMeter meter(0, 0);
  meter.add(at_step(1, 1000, 900));
  CHECK_FALSE(meter.add(at_step(2, 900, 0)));  // back in time
  status::RankStatus wild;
  wild.step = ~std::uint64_t{0};
  wild.step_ns = ~std::uint64_t{0};
  const auto pace = meter.add(wild);
  REQUIRE(pace);
  CHECK(pace->steps >= 1);
  CHECK(pace->own_us <= pace->step_us);
}

TEST_CASE("A job of many ranks is asked less often") {
  CHECK(seconds_between_paces(1) == 1);
  CHECK(seconds_between_paces(249) == 1);
  CHECK(seconds_between_paces(4096) == 17);
  CHECK(seconds_between_paces(-1) == 1);
}
