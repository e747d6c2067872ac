// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/round.hpp"

#include "catch.hpp"

namespace round_test {

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

using Phase = Round::Phase;
using Previous = Round::Previous;

TimePoint at(Milliseconds time) {
  return TimePoint(time);
}

JobLimits nodes(int min_nodes, int max_nodes) {
  JobLimits limits;
  limits.min_nodes = min_nodes;
  limits.max_nodes = max_nodes;
  return limits;
}

Join with_workers(int workers) {
  Join join;
  join.workers = workers;
  return join;
}

std::vector<NodeName> names(const std::vector<Seat>& seats) {
  std::vector<NodeName> names;
  for (const Seat& seat : seats) names.push_back(seat.node);
  return names;
}

}  // namespace

TEST_CASE("A round of fixed size completes with its last node, not before") {
  Round round(0, nodes(2, 2));
  CHECK(round.advance(at(0s), Previous::gone) == Phase::waiting);
  CHECK_FALSE(round.deadline().has_value());
  round.join("a", with_workers(2));
  CHECK(round.advance(at(1s), Previous::gone) == Phase::waiting);
  CHECK(round.status(Previous::gone).text == "1 of 2 nodes joined; waiting for 1 more");
  round.join("a", with_workers(3));
  CHECK(round.advance(at(1s), Previous::gone) == Phase::waiting);
  round.join("b", with_workers(4));
  CHECK(round.workers() == 7);
  CHECK(round.advance(at(1s), Previous::gone) == Phase::complete);
  const std::vector<Seat> seats = round.take_seats();
  CHECK(names(seats) == std::vector<NodeName>{"a", "b"});
  CHECK(seats[0].workers == 3);
  CHECK(seats[1].first_rank == 3);
  CHECK(round.joined() == 0);
  CHECK(round.workers() == 0);
}

TEST_CASE("If nobody else can come, the last call ends when the last expected node has joined") {
  Round round(0, nodes(1, 3), true);
  for (const char* node : {"a", "b", "c"}) round.expect(node, 0);
  round.join("a", with_workers(1));
  CHECK(round.advance(at(0s), Previous::gone) == Phase::last_call);
  round.join("b", with_workers(1));
  CHECK(round.advance(at(1s), Previous::gone) == Phase::last_call);
  round.expect_no_more("c");
  CHECK(round.advance(at(2s), Previous::gone) == Phase::complete);
}

TEST_CASE("Too few nodes time out 600 s after the first") {
  Round round(0, nodes(2, 2));
  round.join("a", with_workers(1));
  CHECK(round.advance(at(5s), Previous::gone) == Phase::waiting);
  CHECK(round.deadline() == at(605s));
  CHECK(round.advance(at(605s) - 1ms, Previous::gone) == Phase::waiting);
  CHECK(round.advance(at(605s), Previous::gone) == Phase::timed_out);
}

TEST_CASE("Between min and max there is a last call of 30 s") {
  Round round(0, nodes(1, 3));
  round.join("a", with_workers(1));
  CHECK(round.advance(at(0s), Previous::gone) == Phase::last_call);
  CHECK(round.deadline() == at(30s));
  round.join("b", with_workers(1));
  CHECK(round.advance(at(29s), Previous::gone) == Phase::last_call);
  SECTION("it ends") {
    CHECK(round.advance(at(30s), Previous::gone) == Phase::complete);
  }
  SECTION("the house is full") {
    round.join("c", with_workers(1));
    CHECK(round.advance(at(29s), Previous::gone) == Phase::complete);
  }
  SECTION("all leave again") {
    round.withdraw("a");
    round.withdraw("b");
    CHECK(round.advance(at(40s), Previous::gone) == Phase::waiting);
    CHECK_FALSE(round.deadline().has_value());
  }
}

TEST_CASE("Nothing completes before the round before is gone, and no clock runs while it runs") {
  Round round(1, nodes(1, 1));
  round.join("a", with_workers(1));
  CHECK(round.advance(at(0s), Previous::running) == Phase::waiting);
  CHECK(round.advance(at(2000s), Previous::running) == Phase::waiting);
  CHECK_FALSE(round.deadline().has_value());
  CHECK(round.advance(at(2000s), Previous::draining) == Phase::last_call);
  CHECK(round.deadline() == at(2600s));
  SECTION("it goes") {
    CHECK(round.advance(at(2001s), Previous::gone) == Phase::complete);
  }
  SECTION("it never does") {
    CHECK(round.advance(at(2600s), Previous::draining) == Phase::timed_out);
  }
}

TEST_CASE("A full house waits for a node that is expected back, until the last call ends") {
  Round round(1, nodes(1, 2));
  round.remember_order({"a", "b"});
  round.expect("a");
  round.join("x", with_workers(1));
  round.join("b", with_workers(1));
  CHECK(round.advance(at(0s), Previous::gone) == Phase::last_call);
  CHECK(round.status(Previous::gone).missing == std::vector<NodeName>{"a"});
  SECTION("it comes, and the newcomer waits on") {
    round.join("a", with_workers(1));
    CHECK(round.advance(at(1s), Previous::gone) == Phase::complete);
    CHECK(names(round.take_seats()) == std::vector<NodeName>{"a", "b"});
    CHECK(round.has("x"));
  }
  SECTION("it does not come") {
    CHECK(round.advance(at(30s), Previous::gone) == Phase::complete);
    CHECK(names(round.take_seats()) == std::vector<NodeName>{"b", "x"});
  }
  SECTION("it is gone") {
    round.expect_no_more("a");
    CHECK(round.advance(at(1s), Previous::gone) == Phase::complete);
  }
}

TEST_CASE("A round that is held completes when the delay has passed, not before") {
  Round round(1, nodes(2, 2));
  round.hold(at(10s), 4s);
  round.join("a", with_workers(1));
  CHECK(round.advance(at(11s), Previous::draining) == Phase::waiting);
  round.join("b", with_workers(1));
  SECTION("the round before is gone soon") {
    CHECK(round.advance(at(12s), Previous::gone) == Phase::last_call);
    CHECK(round.deadline() == at(14s));
    CHECK(round.status(Previous::gone).text ==
          "2 of 2 nodes joined; the next round begins 4 s after the end of the one before");
    CHECK(round.advance(at(14s) - 1ms, Previous::gone) == Phase::last_call);
    CHECK(round.advance(at(14s), Previous::gone) == Phase::complete);
  }
  SECTION("the round before is gone after the delay") {
    CHECK(round.advance(at(20s), Previous::draining) == Phase::last_call);
    CHECK(round.advance(at(21s), Previous::gone) == Phase::complete);
  }
  SECTION("the next one begins anew, without a delay") {
    CHECK(round.advance(at(14s), Previous::gone) == Phase::complete);
    round.take_seats();
    round.restart(2);
    round.join("a", with_workers(1));
    round.join("b", with_workers(1));
    CHECK(round.advance(at(12s), Previous::gone) == Phase::complete);
  }
}

TEST_CASE("The join timeout of a round that is held begins after the delay") {
  Round round(1, nodes(2, 2));
  round.hold(at(0s), 30s);
  round.join("a", with_workers(1));
  CHECK(round.advance(at(1s), Previous::gone) == Phase::waiting);
  CHECK(round.deadline() == at(630s));
  CHECK(round.advance(at(630s) - 1ms, Previous::gone) == Phase::waiting);
  CHECK(round.advance(at(630s), Previous::gone) == Phase::timed_out);
}

}  // namespace round_test
