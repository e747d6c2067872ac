// SPDX-License-Identifier: Apache-2.0
#include "agent/core/stop_notice.hpp"

#include "catch.hpp"

#include <csignal>

using namespace muster::agent;
using muster::rendezvous::FailRound;
using muster::rendezvous::RoundEnd;
using muster::rendezvous::RoundEndCause;
using namespace std::chrono_literals;

namespace {

FailRound failed(int rank) {
  FailRound failure;
  failure.rank = rank;
  failure.text = "something on n1 failed";
  return failure;
}

RoundEnd ended(RoundEndCause cause, const std::string& text) {
  RoundEnd end;
  end.cause = cause;
  end.text = text;
  return end;
}

}  // namespace

TEST_CASE("The notice is one line with the reason and the time of grace") {
  CHECK(stop_notice("SIGTERM", {}, 30s) == "{\"grace_s\":30.0,\"reason\":\"SIGTERM\"}\n");
  CHECK(stop_notice("", failed(3), 500ms) == "{\"grace_s\":0.5,\"reason\":\"failure of rank 3\"}\n");
  CHECK(stop_notice("SIGTERM", failed(-1), 1s) ==
        "{\"grace_s\":1.0,\"reason\":\"something on n1 failed\"}\n");
  CHECK(stop_notice("", {}, 30s).empty());
}

TEST_CASE("What a notice quotes is bounded and has no line breaks") {
  CHECK(stop_notice("a\nb\xff", {}, 0s) == "{\"grace_s\":0.0,\"reason\":\"a\\nb\xef\xbf\xbd\"}\n");
  CHECK(stop_notice(std::string(100'000, 'x'), {}, 0s).size() < kStopReasonMax + 100);
}

TEST_CASE("The end of a round is a reason in few words") {
  RoundEnd end = ended(RoundEndCause::node_failed, "rank 5 on n2 failed (exit code 1)");
  CHECK(stop_reason(end) == "rank 5 on n2 failed (exit code 1)");
  end.rank = 5;
  CHECK(stop_reason(end) == "failure of rank 5");
  end = ended(RoundEndCause::node_left, "n2 was told to stop");
  end.exit_code = 128 + SIGINT;
  CHECK(stop_reason(end) == "SIGINT");
  CHECK(stop_reason(ended(RoundEndCause::node_lost, "node n2 is lost: silent")) == "node n2 is lost: silent");
  CHECK(stop_reason(ended(RoundEndCause::nodes_waiting, "")) == "the round ends");
}
