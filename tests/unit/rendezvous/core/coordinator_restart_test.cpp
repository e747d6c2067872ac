// SPDX-License-Identifier: Apache-2.0
// What follows the end of a round: another one, when, and what everybody is told.
#include "tests/unit/rendezvous/core/desk.hpp"

namespace coordinator_restart_test {

using namespace muster::rendezvous;
using namespace std::chrono_literals;

TEST_CASE("One counter of restarts for all nodes, told with every round") {
  Desk desk(with_restarts(2, 2, 1), 2);
  CHECK(desk.sent<RoundResult>(1)->restarts == 0);
  desk.send(2, failure(0));
  CHECK(desk.sent<RoundEnd>(1)->again);
  CHECK(desk.sent<RoundEnd>(1)->restarts == 1);
  CHECK(desk.sent<RoundEnd>(1)->exit_code == 7);
  CHECK(desk.sent<RoundEnd>(1)->host == "h2");
  CHECK(desk.sent<RoundEnd>(1)->rank == 3);
  desk.send(1, failure(0));
  CHECK_FALSE(desk.sent<RoundEnd>(2).has_value());
  desk.send(2, LeaveRound{0, RoundOutcome::failed});
  CHECK(desk.sent<Left>(2)->next == NextStep::join);
  desk.send(1, LeaveRound{0, RoundOutcome::stopped});
  CHECK(desk.sent<Left>(1)->next == NextStep::join);
  desk.begin(2, 1);
  CHECK(desk.sent<RoundResult>(2)->restarts == 1);

  desk.send(1, FailRound{1, "rank 0 exited with 9", 9});
  CHECK_FALSE(desk.sent<RoundEnd>(2)->again);
  desk.send(1, LeaveRound{1, RoundOutcome::failed});
  CHECK(desk.sent<Left>(1)->next == NextStep::end);
  CHECK(desk.count<effect::EndJob>() == 0);
  desk.send(2, LeaveRound{1, RoundOutcome::stopped});
  CHECK(desk.sent<Left>(2)->next == NextStep::end);
  REQUIRE(desk.count<effect::EndJob>() == 1);
  for (const SessionId session : {1U, 2U}) {
    const auto closed = desk.sent<JobClosed>(session);
    REQUIRE(closed.has_value());
    CHECK_FALSE(closed->succeeded);
    CHECK(closed->exit_code == 9);
    CHECK(closed->node == "a");
    CHECK(closed->host == "host");
    CHECK(closed->reason == "rank 0 exited with 9");
  }
}

TEST_CASE("Who comes while a round ends hears what is waited for") {
  Desk desk(with_restarts(1, 2, 3), 2);
  desk.send(2, failure(0));
  desk.send(2, LeaveRound{0, RoundOutcome::failed});
  desk.join(2, 1);
  REQUIRE(desk.sent<Status>(2).has_value());
  CHECK(desk.sent<Status>(2)->text ==
        "1 of 1 nodes joined; waiting for the workers of the previous round to end");
}

TEST_CASE("Rounds that last are no reason to give up, however alike they fail") {
  for (const auto lasts : {0s, 31s}) {
    CAPTURE(lasts.count());
    CoordinatorOptions options = with_restarts(1, 1, 9);
    options.limits.restart_rule = RestartRule::progress;
    Desk desk(options, 1);
    for (RoundNumber round = 0; round < 3; ++round) {
      desk.now += lasts;
      desk.send(1, failure(round));
      desk.send(1, LeaveRound{round, RoundOutcome::failed});
      const bool last = lasts == 0s && round == 2;
      REQUIRE(desk.sent<Left>(1)->next == (last ? NextStep::end : NextStep::join));
      if (last) break;
      desk.pass(10s);  // the delay of the restart
      desk.begin(1, round + 1);
    }
  }
}

TEST_CASE("The second restart waits a second, which all are told, and takes nobody in before") {
  Desk desk(with_restarts(2, 2, 5), 2);
  desk.send(2, failure(0));
  CHECK(desk.sent<RoundEnd>(1)->delay == 0s);
  CHECK(desk.sent<RoundEnd>(1)->decision == "restarting all workers (restart 1 of 5)");
  for (const SessionId session : {1U, 2U}) desk.send(session, LeaveRound{0, RoundOutcome::stopped});
  desk.begin(2, 1);
  desk.now += 5s;
  desk.send(2, failure(1));
  CHECK(desk.sent<RoundEnd>(1)->delay == 1s);
  CHECK(desk.sent<RoundEnd>(1)->decision == "restarting all workers in 1 s (restart 2 of 5)");
  desk.send(2, LeaveRound{1, RoundOutcome::failed});
  CHECK(*desk.sent<Left>(2) ==
        Left{1, NextStep::join, 2, 1s, "restarting all workers in 1 s (restart 2 of 5)"});
  desk.send(2, LeaveRound{1, RoundOutcome::failed});
  CHECK(desk.sent<Left>(2)->delay == 1s);
  desk.send(1, LeaveRound{1, RoundOutcome::stopped});
  desk.join(1);
  desk.join(2);
  CHECK(desk.count<effect::OpenStore>() == 0);
  SECTION("the delay passes") {
    desk.pass(1s - 1ms);
    CHECK(desk.count<effect::OpenStore>() == 0);
    desk.pass(1ms);
    CHECK(desk.count<effect::OpenStore>() == 1);
  }
  SECTION("a node is lost meanwhile: it is waited for") {
    desk.cut(2);
    CHECK_FALSE(desk.sent<JobClosed>(1).has_value());
    desk.pass(1s);
    CHECK(desk.count<effect::OpenStore>() == 0);
    desk.come(3, "c");
    CHECK(desk.count<effect::OpenStore>() == 1);
  }
}

TEST_CASE("A failure that is not started again ends the job with its own cause, and all hear why") {
  Desk desk(with_restarts(2, 2, 5), 2);
  desk.send(2, FailRound{0, "rank 3 on h2 failed (exit code 127)", 127, "h2", 3});
  CHECK_FALSE(desk.sent<RoundEnd>(1)->again);
  CHECK(desk.sent<RoundEnd>(1)->restarts == 0);
  CHECK(desk.sent<RoundEnd>(1)->text == "rank 3 on h2 failed (exit code 127)");
  CHECK(contains(desk.sent<RoundEnd>(1)->decision, "no restart: exit code 127"));
  CHECK(cause_text(*desk.sent<RoundEnd>(1)) == desk.sent<RoundEnd>(1)->text);
  desk.send(2, LeaveRound{0, RoundOutcome::failed, 127});
  CHECK(desk.sent<Left>(2)->next == NextStep::end);
  CHECK(contains(desk.sent<Left>(2)->decision, "no restart: exit code 127"));
  desk.send(1, LeaveRound{0, RoundOutcome::stopped});
  CHECK(desk.sent<JobClosed>(1)->exit_code == 127);
}

TEST_CASE("A round that ends for a newcomer costs no restart, and a success in it is called again") {
  Desk desk(with_restarts(2, 3, 0), 2);
  desk.pass(30s);
  desk.open(0);
  desk.come(3, "c");
  REQUIRE(desk.sent<RoundEnd>(1)->cause == RoundEndCause::nodes_waiting);
  CHECK(desk.sent<RoundEnd>(1)->again);
  CHECK(desk.sent<RoundEnd>(1)->restarts == 0);
  desk.send(1, LeaveRound{0, RoundOutcome::succeeded});
  CHECK(desk.sent<Left>(1)->next == NextStep::wait);
  desk.send(2, LeaveRound{0, RoundOutcome::stopped});
  CHECK(desk.sent<RoundEnd>(1)->again);
  CHECK(desk.sent<Left>(2)->next == NextStep::join);
  desk.begin(3, 1);
  CHECK(desk.sent<RoundResult>(3)->nodes == 3);
  CHECK(desk.sent<RoundResult>(3)->restarts == 0);
}

TEST_CASE("A lost node ends a job of fixed size that nobody else can join, and says what is missing") {
  CoordinatorOptions options = with_restarts(2, 2, 5);
  options.only_expected = true;
  Desk desk(options, 2);
  desk.cut(2);
  REQUIRE(desk.sent<RoundEnd>(1).has_value());
  CHECK_FALSE(desk.sent<RoundEnd>(1)->again);
  CHECK(cause_text(*desk.sent<RoundEnd>(1)) ==
        "node b (host host) is lost: connection closed; 1 node is left, and the job needs 2");
  desk.send(1, LeaveRound{0, RoundOutcome::stopped});
  CHECK(desk.sent<JobClosed>(1)->exit_code == 125);
  CHECK(desk.sent<JobClosed>(1)->node == "b");
}

TEST_CASE("A job of fixed size waits for a node that comes back, and says since when it is gone") {
  CoordinatorOptions options = with_restarts(2, 2, 3);
  options.limits.join_timeout = 40s;
  Desk desk(options, 2);
  desk.cut(2);
  CHECK(desk.sent<RoundEnd>(1)->again);
  CHECK(desk.sent<RoundEnd>(1)->restarts == 1);
  CHECK(contains(desk.sent<RoundEnd>(1)->decision, "waiting up to 40 s for it to come back"));
  desk.send(1, LeaveRound{0, RoundOutcome::stopped});
  CHECK(desk.sent<Left>(1)->next == NextStep::join);
  desk.pass(3s);
  desk.join(1);
  const std::string waits =
      "1 of 2 nodes joined; waiting for 1 more; host (gone for 3 s) may come back, or another in its place";
  CHECK(desk.sent<Status>(1)->text == waits);
  SECTION("and nobody comes") {
    desk.pass(40s);
    REQUIRE(desk.sent<JobClosed>(1).has_value());
    CHECK(desk.sent<JobClosed>(1)->exit_code == 125);
    CHECK(contains(desk.sent<JobClosed>(1)->reason, "host (gone for 43 s) may come back"));
    CHECK(contains(desk.sent<JobClosed>(1)->reason, "node b (host host) is lost"));
  }
  SECTION("and another comes") {
    desk.come(3, "c");
    desk.open(1);
    CHECK(desk.sent<RoundResult>(3)->restarts == 1);
  }
}

TEST_CASE("A job of fixed size waits for another node in place of one that was told to stop") {
  Desk desk(with_restarts(2, 2, 3), 2);
  desk.send(2, LeaveRound{0, RoundOutcome::stopped, 143, "b was told to stop by SIGTERM"});
  CHECK(desk.sent<Left>(2)->next == NextStep::end);
  CHECK(desk.sent<RoundEnd>(1)->again);
  desk.cut(2);
  desk.send(1, LeaveRound{0, RoundOutcome::stopped});
  desk.join(1);
  desk.come(3, "b");
  desk.open(1);
  CHECK(desk.sent<RoundResult>(1)->restarts == 1);
}

}  // namespace coordinator_restart_test
