// SPDX-License-Identifier: Apache-2.0
#include "agent/core/rank_pace.hpp"

#include "catch.hpp"

namespace rank_pace_test {

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
  CHECK_FALSE(meter.add(at_step(0, 0, 0), 0));  // it has told no step
  CHECK_FALSE(meter.add(at_step(10, 1000, 300), 0));
  CHECK_FALSE(meter.add(at_step(10, 1000, 300), 0));
  const auto pace = meter.add(at_step(14, 1800, 500), 0);
  REQUIRE(pace);
  CHECK(*pace == rendezvous::RankPace{4, 7, 4, 200'000, 150'000});
  CHECK_FALSE(meter.add(at_step(14, 1800, 500), 0));
  const auto next = meter.add(at_step(15, 1900, 590), 0);
  REQUIRE(next);
  CHECK(*next == rendezvous::RankPace{4, 7, 1, 100'000, 10'000});
}

TEST_CASE(
    "Calls that overlap a step count no longer than the step, and a count that begins anew is no pace") {
  PaceMeter meter(0, 0);
  meter.add(at_step(1, 1000, 0), 0);
  const auto pace = meter.add(at_step(2, 1100, 500), 0);
  REQUIRE(pace);
  CHECK(pace->own_us == 0);
  CHECK_FALSE(meter.add(at_step(1, 1200, 500), 0));
  const auto after = meter.add(at_step(2, 1300, 550), 0);
  REQUIRE(after);
  CHECK(after->step_us == 100'000);
  CHECK(after->own_us == 50'000);
}

TEST_CASE("What another process wrote is no reason to fail") {
  PaceMeter meter(0, 0);
  meter.add(at_step(1, 1000, 900), 0);
  CHECK_FALSE(meter.add(at_step(2, 900, 0), 0));  // back in time
  status::RankStatus wild;
  wild.step = ~std::uint64_t{0};
  wild.step_ns = ~std::uint64_t{0};
  const auto pace = meter.add(wild, 0);
  REQUIRE(pace);
  CHECK(pace->steps >= 1);
  CHECK(pace->own_us <= pace->step_us);
}

namespace {

/// A program that tells no steps: so many calls so far, in which it was for so long; in one now since then.
status::RankStatus with_calls(std::uint64_t calls, std::uint64_t calls_ms, std::uint64_t entered_ms = 0) {
  status::RankStatus status;
  status.calls = calls;
  status.calls_ns = calls_ms * 1'000'000;
  if (entered_ms == 0) return status;
  status::GroupStatus group;
  group.state = status::GroupState::in_call;
  group.entered_ns = entered_ms * 1'000'000;
  status.groups.push_back(group);
  return status;
}

constexpr std::uint64_t kMs = 1'000'000;

}  // namespace

TEST_CASE("A program that tells no steps has a pace of its calls, once it has made ten") {
  PaceMeter meter(4, 7);
  CHECK_FALSE(meter.add(with_calls(3, 100), 1000 * kMs));
  CHECK_FALSE(meter.add(with_calls(12, 500), 2000 * kMs));
  const auto pace = meter.add(with_calls(23, 1100), 3000 * kMs);
  REQUIRE(pace);
  CHECK(*pace == rendezvous::RankPace{4, 7, 20, 100'000, 50'000, true});
  // From then on, the call in which it is now included.
  const auto next = meter.add(with_calls(33, 1300, 3800), 4000 * kMs);
  REQUIRE(next);
  CHECK(*next == rendezvous::RankPace{4, 7, 10, 100'000, 60'000, true});
  const auto after = meter.add(with_calls(43, 1900), 5000 * kMs);
  REQUIRE(after);
  CHECK(*after == rendezvous::RankPace{4, 7, 10, 100'000, 60'000, true});
  CHECK_FALSE(meter.add(with_calls(2, 0), 6000 * kMs));  // another process counts anew
}

TEST_CASE("A job of many ranks is asked less often") {
  CHECK(seconds_between_paces(1) == 1);
  CHECK(seconds_between_paces(249) == 1);
  CHECK(seconds_between_paces(4096) == 17);
  CHECK(seconds_between_paces(-1) == 1);
}

}  // namespace rank_pace_test
