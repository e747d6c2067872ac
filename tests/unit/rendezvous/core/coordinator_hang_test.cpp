// SPDX-License-Identifier: Apache-2.0
// What the coordinator makes of what the nodes tell of their ranks.
#include "tests/unit/rendezvous/core/desk.hpp"

namespace coordinator_hang_test {

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

RankHealth health_of(int rank, WaitKind wait, RoundNumber round = 0) {
  RankHealth health;
  health.round = round;
  health.rank = rank;
  health.activity = Activity::waits;
  health.wait = wait;
  health.still = health.lasted = 10s;
  return health;
}

CoordinatorOptions of_two_nodes(HangAction on_hang = HangAction::report, int max_restarts = 0) {
  CoordinatorOptions options = Desk::options(2, 2);
  options.limits.on_hang = on_hang;
  options.limits.max_restarts = max_restarts;
  options.limits.hang_timeout = 60s;
  // The nodes of this test say nothing for a minute.
  options.membership.dead_after = 0ms;
  return options;
}

/// Nodes a and b with two ranks each; all but rank 3 are in a collective.
struct Hanging : Desk {
  explicit Hanging(const CoordinatorOptions& options = of_two_nodes(), WaitKind odd = WaitKind::lock)
      : Desk(options, 2) {
    send(1, health_of(0, WaitKind::communication));
    send(1, health_of(1, WaitKind::communication));
    send(2, health_of(2, WaitKind::communication));
    send(2, health_of(3, odd));
  }
};

}  // namespace

TEST_CASE("Every node of a round is told which rank hangs, when its time has come") {
  Hanging desk;
  CHECK(desk.count<effect::SetTimer>() == 1);
  desk.pass(20s);
  CHECK(desk.count<effect::AskStore>() == 1);
  desk.pass(29s);
  CHECK_FALSE(desk.sent<JobNotice>(1));
  desk.pass(1s);
  REQUIRE(desk.sent<JobNotice>(1));
  CHECK_THAT(desk.sent<JobNotice>(1)->text, Contains("rank 3 on host is hung"));
  CHECK(desk.sent<JobNotice>(1)->hang == HangLevel::is_hung);
  CHECK(desk.sent<JobNotice>(1)->culprits == std::vector<int>{3});
  CHECK(desk.sent<JobNotice>(2) == desk.sent<JobNotice>(1));
  desk.pass(600s);
  CHECK_FALSE(desk.sent<JobNotice>(1));
  RankHealth moves;
  moves.rank = 3;
  desk.send(2, moves);
  REQUIRE(desk.sent<JobNotice>(1));
  CHECK(desk.sent<JobNotice>(1)->text == "rank 3 on host moves again");
  CHECK(desk.sent<JobNotice>(1)->hang == HangLevel::none);
  CHECK(desk.sent<JobNotice>(1)->culprits.empty());
}

TEST_CASE("Nobody speaks for the ranks of another node, of another round, or as the launcher") {
  Desk desk(of_two_nodes(), 2);
  for (int rank = 0; rank < 4; ++rank) desk.send(1, health_of(rank, WaitKind::communication));
  desk.send(2, health_of(2, WaitKind::communication, 7));
  desk.send(2, health_of(3, WaitKind::communication, 7));
  desk.pass(100s);
  CHECK_FALSE(desk.sent<JobNotice>(1));
  desk.launcher(9);
  desk.send(9, health_of(0, WaitKind::lock));
  REQUIRE(desk.sent<ErrorReply>(9));
  CHECK(desk.sent<ErrorReply>(9)->about == "rank_health");
}

TEST_CASE("A node that has left with success is waited for in vain") {
  Desk desk(of_two_nodes(), 2);
  desk.send(2, LeaveRound{0, RoundOutcome::succeeded});
  desk.send(1, health_of(0, WaitKind::communication));
  desk.send(1, health_of(1, WaitKind::communication));
  desk.pass(59s);
  desk.pass(1s);
  REQUIRE(desk.sent<JobNotice>(1));
  CHECK_THAT(desk.sent<JobNotice>(1)->text, Contains("ranks 2, 3 on host have ended"));
  CHECK_FALSE(desk.sent<JobNotice>(2));
}

TEST_CASE("The ranks of the next round have told nothing yet") {
  Hanging desk;
  desk.send(2, failure(0));
  desk.pass(100s);
  CHECK_FALSE(desk.sent<JobNotice>(1));
  desk.send(1, LeaveRound{0, RoundOutcome::stopped});
  desk.send(2, LeaveRound{0, RoundOutcome::failed});
  desk.begin(2, 1);
  desk.send(2, health_of(3, WaitKind::lock, 1));
  desk.pass(100s);
  CHECK_FALSE(desk.sent<JobNotice>(1));
}

TEST_CASE("With --on-hang restart every node is told that the round ends, and a restart is used up") {
  Hanging desk(of_two_nodes(HangAction::restart, 1));
  desk.pass(49s);
  CHECK_FALSE(desk.sent<RoundEnd>(1));
  desk.pass(1s);
  REQUIRE(desk.sent<RoundEnd>(1));
  CHECK(desk.sent<RoundEnd>(1)->cause == RoundEndCause::hung);
  CHECK(desk.sent<RoundEnd>(1)->node.empty());
  CHECK(desk.sent<RoundEnd>(1)->rank == 3);
  CHECK(desk.sent<RoundEnd>(1)->exit_code == 1);
  CHECK(desk.sent<RoundEnd>(1)->text == desk.sent<JobNotice>(1)->text);
  CHECK(desk.sent<RoundEnd>(1)->again);
  CHECK(desk.sent<RoundEnd>(1)->restarts == 1);
  CHECK(desk.sent<RoundEnd>(2) == desk.sent<RoundEnd>(1));
  desk.send(1, LeaveRound{0, RoundOutcome::stopped});
  desk.send(2, LeaveRound{0, RoundOutcome::stopped});
  CHECK(desk.sent<Left>(2)->next == NextStep::join);
}

TEST_CASE("With --on-hang abort the job ends with the verdict as its cause") {
  Hanging desk(of_two_nodes(HangAction::abort, 5));
  desk.pass(49s);
  desk.pass(1s);
  REQUIRE(desk.sent<RoundEnd>(1));
  CHECK_FALSE(desk.sent<RoundEnd>(1)->again);
  CHECK_FALSE(desk.sent<RoundEnd>(1)->decision_is_cause);
  desk.send(1, LeaveRound{0, RoundOutcome::stopped});
  desk.send(2, LeaveRound{0, RoundOutcome::stopped});
  REQUIRE(desk.sent<JobClosed>(1));
  CHECK_THAT(desk.sent<JobClosed>(1)->reason, Contains("rank 3 on host is hung"));
  CHECK(desk.sent<JobClosed>(1)->exit_code == 1);
}

TEST_CASE("A job that may be hung goes on, whatever --on-hang says") {
  for (const HangAction action : {HangAction::restart, HangAction::abort}) {
    Hanging desk(of_two_nodes(action, 5), WaitKind::file);
    desk.pass(49s);
    desk.pass(1s);
    REQUIRE(desk.sent<JobNotice>(1));
    CHECK(desk.sent<JobNotice>(1)->hang == HangLevel::may_be);
    desk.pass(600s);
    CHECK(desk.count<effect::EndJob>() == 0);
    CHECK_FALSE(desk.sent<RoundEnd>(1));
  }
}

TEST_CASE("Every node of a round is told which rank is slow, and that it is no more") {
  Desk desk(of_two_nodes(), 2);
  const auto look = [&desk](int slow_ms) {
    desk.now += 2s;
    std::optional<SlowRanks> told;
    for (int rank = 0; rank < 4; ++rank) {
      const auto own = static_cast<std::uint64_t>(rank == 3 ? slow_ms : 80) * 1000;
      desk.send(rank < 2 ? 1 : 2, RankPace{0, rank, 10, 200'000, own});
      if (desk.sent<SlowRanks>(1)) {
        told = desk.sent<SlowRanks>(1);
        CHECK(desk.sent<SlowRanks>(2) == told);
      }
    }
    return told;
  };
  for (int i = 0; i < 7; ++i) CHECK_FALSE(look(165));
  const auto slow = look(165);
  REQUIRE(slow);
  CHECK(slow->slow);
  CHECK_THAT(slow->text, Contains("rank 3 on host is slow: 165 ms"));
  std::optional<SlowRanks> taken_back;
  for (int i = 0; i < 10 && !taken_back; ++i) taken_back = look(80);
  REQUIRE(taken_back);
  CHECK_FALSE(taken_back->slow);
}

TEST_CASE("Nobody tells the pace of another node's ranks, and slow ranks take no verdict back") {
  Hanging desk;
  for (int i = 0; i < 20; ++i)
    for (int rank = 0; rank < 4; ++rank)
      desk.send(1, RankPace{0, rank, 1, 200'000, rank == 3 ? 200'000U : 1U});
  CHECK_FALSE(desk.sent<SlowRanks>(1));
  desk.pass(20s);
  desk.pass(29s);
  desk.pass(1s);
  REQUIRE(desk.sent<JobNotice>(1));
  for (int i = 0; i < 20; ++i)
    for (int rank = 0; rank < 4; ++rank) {
      desk.send(rank < 2 ? 1 : 2, RankPace{0, rank, 1, 200'000, rank == 3 ? 200'000U : 1U});
      CHECK_FALSE(desk.sent<JobNotice>(1));
    }
}

TEST_CASE("A verdict names what is wrong on a node's host, as the node of this round has told it") {
  Hanging desk;
  desk.send(2, HostNews{0, "the file system /scratch is full"});
  desk.send(1, HostNews{3, "told of another round"});
  desk.pass(20s);
  desk.pass(29s);
  desk.pass(1s);
  REQUIRE(desk.sent<JobNotice>(1));
  CHECK_THAT(desk.sent<JobNotice>(1)->text, EndsWith("; on host the file system /scratch is full"));
}

TEST_CASE("Nodes tell what flight recorders have noted of their own ranks, and of no others") {
  Hanging desk(of_two_nodes(), WaitKind::communication);
  const auto recorded = [](int rank, std::uint64_t last, bool done) {
    FlightGroup group{"default_pg", "0", {0, 1, 2, 3}, last, {}};
    if (!done) group.calls.push_back({last, "all_reduce", "[[4]]", "[[4]]", "[Float]", "scheduled"});
    return RankFlight{0, {rank, {group}}};
  };
  for (const int rank : {0, 1}) desk.send(1, recorded(rank, 41, false));
  desk.send(2, recorded(2, 41, false));
  desk.send(2, recorded(3, 40, true));
  desk.send(1, recorded(2, 40, true));
  RankFlight of_another_round = recorded(2, 40, true);
  of_another_round.round = 3;
  desk.send(2, of_another_round);
  desk.pass(20s);
  desk.pass(29s);
  desk.pass(1s);
  REQUIRE(desk.sent<JobNotice>(1));
  CHECK(desk.sent<JobNotice>(1)->culprits == std::vector<int>{3});
  CHECK_THAT(desk.sent<JobNotice>(1)->text,
             EndsWith("; by the flight recorder rank 3 never entered all_reduce 41 of group default_pg; "
                      "ranks 0-2 wait in it"));
}

}  // namespace coordinator_hang_test
