// SPDX-License-Identifier: Apache-2.0
// What the integration test and the simulation do not reach: exact answers to single events.
#include "tests/unit/rendezvous/core/desk.hpp"

using namespace muster::rendezvous;
using namespace std::chrono_literals;

TEST_CASE("The next store opens after the last node of the old round has left") {
  Desk desk(2, 2, 2);
  desk.send(1, LeaveRound{0, RoundOutcome::failed});
  CHECK(desk.sent<RoundEnd>(2)->node == "a");
  CHECK(desk.count<effect::CloseStore>() == 0);
  desk.join(1, 1);
  CHECK(desk.count<effect::OpenStore>() == 0);
  desk.send(2, LeaveRound{0, RoundOutcome::stopped});
  CHECK(desk.count<effect::CloseStore>() == 1);
  CHECK(desk.count<effect::OpenStore>() == 0);
  desk.join(2, 1);
  CHECK(desk.count<effect::OpenStore>() == 1);
}

TEST_CASE("Numbers of rounds that are over are refused") {
  CoordinatorOptions options = Desk::options(1, 1);
  options.limits.restart_rule = RestartRule::torchrun;
  Desk desk(options);
  desk.hello(1, "a");
  for (RoundNumber round = 0; round < 5; ++round) {
    desk.join(1);
    desk.open(round);
    desk.send(1, LeaveRound{round, RoundOutcome::failed});
  }
  desk.send(1, LeaveRound{4, RoundOutcome::failed});
  CHECK(desk.sent<Left>(1).has_value());
  desk.send(1, LeaveRound{3, RoundOutcome::failed});
  CHECK(desk.sent<ErrorReply>(1)->code == Errc::rejoin);
  CHECK(desk.sent<ErrorReply>(1)->text == "round 3 is over");
  desk.join(1, 4);
  CHECK(desk.sent<ErrorReply>(1)->text == "round 4 is over; join round 5");
  desk.join(1, 6);
  CHECK(desk.sent<ErrorReply>(1)->code == Errc::mend);
  desk.join(1, 5);
  CHECK(desk.count<effect::OpenStore>() == 1);
}

TEST_CASE("Who has a place may not join again before leaving") {
  Desk desk(1, 1, 1);
  desk.join(1, 1);
  CHECK(desk.sent<ErrorReply>(1)->text == "node a is still in round 0; leave it before joining the next");
}

TEST_CASE("A node that is lost while the store opens is not in the round that follows") {
  Desk desk(1, 2);
  desk.hello(1, "a");
  desk.hello(2, "b");
  desk.join(1);
  desk.join(2);
  REQUIRE(desk.count<effect::OpenStore>() == 1);
  desk.cut(2);
  desk.open(0);
  CHECK(desk.count<effect::CloseStore>() == 1);
  CHECK_FALSE(desk.sent<RoundResult>(1).has_value());
  desk.pass(30s);
  REQUIRE(desk.count<effect::OpenStore>() == 1);
  desk.open(0);
  CHECK(desk.sent<RoundResult>(1)->nodes == 1);
}

TEST_CASE("A newcomer waits while the job is full, and ends the round where there is room") {
  Desk desk(1, 2);
  desk.come(1, "a");
  desk.pass(30s);
  desk.open(0);
  desk.come(2, "b");
  CHECK(desk.sent<RoundEnd>(1)->cause == RoundEndCause::nodes_waiting);
  desk.send(1, LeaveRound{0, RoundOutcome::stopped});
  desk.join(1, 1);
  desk.open(1);
  CHECK(desk.sent<RoundResult>(1)->node_rank == 0);
  desk.come(3, "c");
  CHECK_FALSE(desk.sent<RoundEnd>(1).has_value());
  CHECK(desk.sent<Status>(3)->text.find("waiting for room") != std::string::npos);
}

TEST_CASE("Strangers are refused and sent away") {
  Desk desk;
  desk.join(7);
  CHECK(desk.sent<ErrorReply>(7)->code == Errc::mend);
  CHECK(desk.count<effect::Disconnect>() == 1);
  desk.hello(8, "a", "other");
  CHECK(desk.sent<ErrorReply>(8)->about == "hello");
  CHECK(desk.count<effect::Disconnect>() == 1);
}
