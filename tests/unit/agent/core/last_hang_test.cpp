// SPDX-License-Identifier: Apache-2.0
#include "agent/core/last_hang.hpp"

#include "catch.hpp"

using namespace muster::agent;
using namespace std::chrono_literals;
using muster::rendezvous::HangLevel;
using muster::rendezvous::JobNotice;
using muster::rendezvous::TimePoint;

namespace {

const TimePoint kSaidAt(1000s);
const JobNotice kHung{0, "rank 1 is hung", HangLevel::is_hung, {1}};
const JobNotice kMoves{0, "rank 1 moves again", HangLevel::none};

}  // namespace

TEST_CASE("The verdict that held at the end is kept, with its age") {
  LastHang hang;
  CHECK(hang.report(kSaidAt).level == HangLevel::none);
  hang.notice({0, "rank 0 may be hung", HangLevel::may_be}, {}, kSaidAt);
  hang.notice(kHung, {{{1}, {{"train.py", 41, "load"}}, false}}, kSaidAt + 60s);
  hang.end(kSaidAt + 100s);
  hang.end(kSaidAt + 105s);
  // What follows from the end says nothing of the job.
  hang.notice(kMoves, {}, kSaidAt + 101s);
  const HangReport report = hang.report(kSaidAt + 130s);
  CHECK(report.level == HangLevel::is_hung);
  CHECK(report.text == "rank 1 is hung");
  CHECK(report.said_ms == 40'000);
  CHECK(report.moved_ms == -1);
  REQUIRE(report.stacks.size() == 1);
  CHECK(report.stacks[0].frames.at(0).line == 41);
  hang.begin_round();
  CHECK(hang.report(kSaidAt + 200s).text.empty());
}

TEST_CASE("A verdict that was taken back counts for a while only") {
  LastHang hang;
  hang.notice(kHung, {}, kSaidAt);
  hang.notice(kMoves, {}, kSaidAt + 600s);
  CHECK(hang.report(kSaidAt + 600s + LastHang::kCountsFor).moved_ms == 30'000);
  CHECK(hang.report(kSaidAt + 601s + LastHang::kCountsFor).level == HangLevel::none);
  hang.notice(kHung, {}, kSaidAt + 700s);
  CHECK(hang.report(kSaidAt + 800s).said_ms == 100'000);
  CHECK(hang.report(kSaidAt + 800s).moved_ms == -1);
}

TEST_CASE("A verdict stands until it is taken back, or the round begins to end") {
  LastHang hang;
  CHECK(hang.standing(kSaidAt).level == HangLevel::none);
  hang.notice(kHung, {}, kSaidAt);
  const StandingHang standing = hang.standing(kSaidAt + 40s);
  CHECK(standing.level == HangLevel::is_hung);
  CHECK(standing.text == "rank 1 is hung");
  CHECK(standing.said_ms == 40'000);
  CHECK(standing.culprits == std::vector<int>{1});
  hang.notice(kMoves, {}, kSaidAt + 41s);
  CHECK(hang.standing(kSaidAt + 42s).text.empty());
  hang.notice(kHung, {}, kSaidAt + 60s);
  CHECK(hang.standing(kSaidAt + 61s).said_ms == 1000);
  hang.end(kSaidAt + 62s);
  CHECK(hang.standing(kSaidAt + 63s).level == HangLevel::none);
}
