// SPDX-License-Identifier: Apache-2.0
// Members that come and go, and the job's one verdict.
#include "tests/unit/rendezvous/core/desk.hpp"

namespace coordinator_job_test {

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

Join wanting(int node_rank) {
  Join join{"h" + std::to_string(node_rank), "10.0.0.1", 2, 0};
  join.node_rank = node_rank;
  return join;
}

}  // namespace

TEST_CASE("Who has succeeded waits, and is called again when another fails") {
  Desk desk(with_restarts(2, 2, 1), 2);
  desk.send(1, LeaveRound{0, RoundOutcome::succeeded});
  CHECK(desk.sent<Left>(1)->next == NextStep::wait);
  desk.send(1, LeaveRound{0, RoundOutcome::succeeded});
  CHECK(desk.sent<Left>(1)->next == NextStep::wait);
  desk.send(2, failure(0));
  REQUIRE(desk.sent<RoundEnd>(1).has_value());
  CHECK(desk.sent<RoundEnd>(1)->again);
  desk.send(2, LeaveRound{0, RoundOutcome::failed});
  desk.begin(2, 1);
  CHECK(desk.sent<RoundResult>(1)->node_rank == 0);

  SECTION("with no restart left, it is told that too, and the verdict") {
    desk.send(2, LeaveRound{1, RoundOutcome::succeeded});
    desk.send(1, failure(1));
    REQUIRE(desk.sent<RoundEnd>(2).has_value());
    CHECK_FALSE(desk.sent<RoundEnd>(2)->again);
    desk.send(1, LeaveRound{1, RoundOutcome::failed});
    CHECK_FALSE(desk.sent<JobClosed>(2)->succeeded);
  }
  SECTION("when all succeed, the job has succeeded for everybody") {
    desk.send(2, LeaveRound{1, RoundOutcome::succeeded});
    CHECK(desk.count<effect::EndJob>() == 0);
    desk.send(1, LeaveRound{1, RoundOutcome::succeeded});
    CHECK(desk.count<effect::EndJob>() == 1);
    CHECK(desk.count<effect::CloseStore>() == 1);
    CHECK(desk.sent<JobClosed>(1)->succeeded);
    CHECK(desk.sent<JobClosed>(2)->succeeded);
    desk.join(1, 2);
    CHECK(desk.sent<ErrorReply>(1)->code == Errc::job_over);
  }
  SECTION("one that dies after its success takes nothing with it") {
    desk.send(2, LeaveRound{1, RoundOutcome::succeeded});
    desk.cut(2);
    CHECK_FALSE(desk.sent<RoundEnd>(1).has_value());
    desk.send(1, LeaveRound{1, RoundOutcome::succeeded});
    CHECK(desk.sent<JobClosed>(1)->succeeded);
  }
}

TEST_CASE("An elastic job with too few nodes waits for a newcomer, until the join timeout") {
  Desk desk(with_restarts(2, 3, 1), 2);
  desk.pass(30s);
  desk.open(0);
  desk.cut(2);
  CHECK(desk.sent<RoundEnd>(1)->again);
  desk.send(1, LeaveRound{0, RoundOutcome::stopped});
  desk.join(1);
  CHECK(contains(desk.sent<Status>(1)->text, "1 of 2 nodes joined; waiting for 1 more"));
  SECTION("it comes") {
    desk.come(4, "d");
    desk.pass(30s);
    desk.open(1);
    CHECK(desk.sent<RoundResult>(4)->node_rank == 1);
  }
  SECTION("it does not") {
    desk.pass(600s);
    REQUIRE(desk.sent<JobClosed>(1).has_value());
    CHECK(desk.sent<JobClosed>(1)->exit_code == 125);
    CHECK(contains(desk.sent<JobClosed>(1)->reason, "no round 1 after 600000 ms"));
    CHECK(contains(desk.sent<JobClosed>(1)->reason, "node b (host host) is lost"));
  }
}

TEST_CASE("A node that leaves on an order ends the round for the others, and costs no restart") {
  SECTION("elastic: the round forms again") {
    Desk desk(with_restarts(1, 2, 0), 2);
    desk.send(2, LeaveRound{0, RoundOutcome::stopped, 130});
    CHECK(desk.sent<Left>(2)->next == NextStep::end);
    CHECK(desk.sent<RoundEnd>(1)->cause == RoundEndCause::node_left);
    CHECK(desk.sent<RoundEnd>(1)->again);
    CHECK(desk.sent<RoundEnd>(1)->restarts == 0);
  }
  SECTION("fixed: the job ends") {
    Desk desk(with_restarts(2, 2, 3), 2);
    desk.send(2, LeaveRound{0, RoundOutcome::stopped, 130, "stopped by SIGINT"});
    CHECK_FALSE(desk.sent<RoundEnd>(1)->again);
    desk.send(1, LeaveRound{0, RoundOutcome::stopped});
    CHECK(desk.sent<JobClosed>(1)->exit_code == 130);
    CHECK(contains(desk.sent<JobClosed>(1)->reason, "stopped by SIGINT"));
  }
}

TEST_CASE("A node that is lost between two rounds ends a job that it cannot do without") {
  CoordinatorOptions options = with_restarts(2, 2, 3);
  options.only_expected = true;
  Desk desk(options, 2);
  desk.send(1, LeaveRound{0, RoundOutcome::failed});
  desk.send(2, LeaveRound{0, RoundOutcome::stopped});
  desk.join(1);
  SECTION("while the round forms") {
    desk.cut(2);
    REQUIRE(desk.sent<JobClosed>(1).has_value());
  }
  SECTION("while the store opens") {
    desk.join(2);
    desk.cut(2);
    desk.open(1);
    CHECK(desk.count<effect::CloseStore>() == 1);
    REQUIRE(desk.sent<JobClosed>(1).has_value());
  }
  CHECK(desk.sent<JobClosed>(1)->exit_code == 125);
  CHECK(desk.sent<JobClosed>(1)->node == "b");
  CHECK(contains(desk.sent<JobClosed>(1)->reason, "1 node is left, and the job needs 2"));
}

TEST_CASE("A job that can do without nodes ends with the one that holds the store, in every phase") {
  // Node a is on the coordinator's own host.
  Desk desk(with_restarts(1, 3, 3));
  desk.coordinator.on_own_host(1);
  desk.launcher(9);
  const std::string word = "host holds the store, and the job ends with it";
  const auto expect_closed = [&desk, &word](SessionId session) {
    REQUIRE(desk.sent<JobClosed>(session).has_value());
    CHECK_FALSE(desk.sent<JobClosed>(session)->succeeded);
    CHECK(desk.sent<JobClosed>(session)->exit_code == 125);
    CHECK(desk.sent<JobClosed>(session)->node == "a");
    CHECK(contains(desk.sent<JobClosed>(session)->reason, word));
  };
  SECTION("before the first round") {
    desk.come(1, "a");
    desk.come(2, "b");
    desk.cut(1);
    expect_closed(2);
    expect_closed(9);
    return;
  }
  for (const SessionId session : {1U, 2U, 3U}) desk.come(session, std::string(1, "abc"[session - 1]));
  SECTION("while the store opens") {
    desk.cut(1);
    expect_closed(2);
    return;
  }
  desk.open(0);
  SECTION("while workers run") {
    SECTION("it is lost") {
      desk.cut(1);
    }
    SECTION("it is told to stop") {
      desk.send(1, LeaveRound{0, RoundOutcome::stopped, 125, "a was told to stop"});
      CHECK(desk.sent<Left>(1)->next == NextStep::end);
    }
    for (const SessionId session : {2U, 3U}) {
      REQUIRE(desk.sent<RoundEnd>(session).has_value());
      CHECK_FALSE(desk.sent<RoundEnd>(session)->again);
      CHECK(desk.sent<RoundEnd>(session)->restarts == 0);
      CHECK(contains(cause_text(*desk.sent<RoundEnd>(session)), word));
    }
    desk.send(2, LeaveRound{0, RoundOutcome::stopped});
    CHECK(desk.sent<Left>(2)->next == NextStep::end);
    CHECK(desk.count<effect::EndJob>() == 0);
    if (desk.coordinator.member(1) != nullptr) {
      desk.cut(1);
      CHECK(desk.count<effect::EndJob>() == 0);
    }
    desk.send(3, LeaveRound{0, RoundOutcome::stopped});
    expect_closed(9);
  }
  SECTION("while it waits after its success") {
    desk.send(1, LeaveRound{0, RoundOutcome::succeeded});
    CHECK(desk.sent<Left>(1)->next == NextStep::wait);
    desk.cut(1);
    expect_closed(2);
    desk.send(2, LeaveRound{0, RoundOutcome::stopped});
    CHECK(desk.sent<Left>(2)->next == NextStep::end);
    desk.send(3, LeaveRound{0, RoundOutcome::succeeded});
    CHECK(desk.sent<Left>(3)->next == NextStep::end);
    CHECK(desk.count<effect::CloseStore>() == 1);
  }
  SECTION("between two rounds") {
    desk.send(2, failure(0));
    desk.send(2, LeaveRound{0, RoundOutcome::failed});
    SECTION("whose first still ends") {
      desk.cut(1);
      expect_closed(3);
    }
    SECTION("of which none runs") {
      desk.send(1, LeaveRound{0, RoundOutcome::stopped});
      desk.send(3, LeaveRound{0, RoundOutcome::stopped});
      desk.join(3);
      desk.cut(1);
      expect_closed(3);
    }
  }
}

TEST_CASE("Places follow the wanted node ranks, whoever comes first") {
  Desk desk(3, 3);
  for (const SessionId session : {1U, 2U, 3U}) desk.hello(session, "n" + std::to_string(session));
  desk.send(1, wanting(2));
  desk.send(2, wanting(0));
  SECTION("one taken twice is refused, naming both") {
    desk.send(3, wanting(2));
    REQUIRE(desk.sent<ErrorReply>(3).has_value());
    CHECK(desk.sent<ErrorReply>(3)->text ==
          "node rank 2 is wanted by node n3 (host h2) and already taken by node n1 (host h2); give each node "
          "its own --node-rank");
    desk.cut(1);
    desk.send(3, wanting(2));
    CHECK_FALSE(desk.sent<ErrorReply>(3).has_value());
  }
  SECTION("all are there") {
    desk.send(3, wanting(1));
    desk.open(0);
    CHECK(desk.sent<RoundResult>(1)->node_rank == 2);
    CHECK(desk.sent<RoundResult>(2)->node_rank == 0);
    CHECK(desk.sent<RoundResult>(3)->first_rank == 2);
  }
  SECTION("one has no wish: in the order of joining") {
    desk.send(3, wanting(-1));
    desk.open(0);
    CHECK(desk.sent<RoundResult>(1)->node_rank == 0);
    CHECK(desk.sent<RoundResult>(3)->node_rank == 2);
  }
}

TEST_CASE("A name that is made of the host's stands for it, unless both are on one host") {
  Desk desk(2, 2);
  desk.hello(1, "h1:47-0a");
  desk.hello(2, "h2:47-0b");
  desk.hello(3, "h1:48-0c");
  Join first{"h1", "", 1, 0};
  first.settings = {{"nnodes", "2"}};
  Join other{"h2", "", 1, 0};
  other.settings = {{"nnodes", "3"}};
  desk.send(1, first);
  desk.send(2, other);
  CHECK(desk.sent<ErrorReply>(2)->text ==
        "node h2 has nnodes=3, node h1 has nnodes=2; give the same on every node");
  other.host = "h1";
  desk.send(3, other);
  CHECK(desk.sent<ErrorReply>(3)->text ==
        "node h1:48-0c has nnodes=3, node h1:47-0a has nnodes=2; give the same on every node");
}

TEST_CASE("Contradicting settings are refused with both values and both hosts") {
  Desk desk(2, 2);
  desk.hello(1, "a");
  desk.hello(2, "b");
  Join first{"h1", "", 1, 0};
  first.settings = {{"max_restarts", "0"}, {"nnodes", "2"}};
  Join second{"h2", "", 1, 0};
  second.settings = {{"max_restarts", "3"}, {"nnodes", "2"}};
  desk.send(1, first);
  desk.send(2, second);
  REQUIRE(desk.sent<ErrorReply>(2).has_value());
  CHECK(desk.sent<ErrorReply>(2)->code == Errc::mend);
  CHECK(desk.sent<ErrorReply>(2)->text ==
        "node b (host h2) has max_restarts=3, node a (host h1) has max_restarts=0; give the same on every "
        "node");
  second.settings = {{"max_restarts", "0"}, {"nnodes", "2"}, {"rdzv_id", "j"}};
  desk.send(2, second);
  CHECK(contains(desk.sent<ErrorReply>(2)->text, "has rdzv_id=j, node a (host h1) has no rdzv_id"));
  second.settings = first.settings;
  desk.send(2, second);
  CHECK(desk.count<effect::OpenStore>() == 1);
}

TEST_CASE("While waiting, the missing are named with what the launcher knows of them") {
  CoordinatorOptions options = Desk::options(4, 4);
  options.expected_nodes = {"n0", "n10", "n2", "n7"};
  Desk desk(options);
  desk.launcher(9);
  desk.come(1, "n0");
  CHECK(desk.sent<Status>(1)->text == "1 of 4 nodes joined; waiting for n10, n2, n7");
  CHECK(desk.sent<Status>(1)->missing == std::vector<NodeName>{"n10", "n2", "n7"});
  CHECK(desk.sent<Status>(9)->text == desk.sent<Status>(1)->text);
  desk.send(9, NodeState{"n7", "ssh: connection refused", false});
  desk.send(9, NodeState{"n2", "started", true});
  desk.pass(4s);
  CHECK(desk.sent<Status>(9)->text ==
        "1 of 4 nodes joined; waiting for n10, n2 (started 4 s ago), n7 (ssh: connection refused)");
  desk.come(2, "n2");
  desk.send(9, NodeState{"n7", "", false});
  desk.pass(1s);
  CHECK(desk.sent<Status>(1)->text == "2 of 4 nodes joined; waiting for n10, n7");
}

TEST_CASE("The launcher takes part in no round, and only it says how far a node is") {
  Desk desk(1, 1);
  desk.launcher(9);
  desk.join(9);
  CHECK(desk.sent<ErrorReply>(9)->text == "the launcher takes part in no round");
  desk.begin(1);
  desk.send(1, NodeState{"b", "x", false});
  CHECK(desk.sent<ErrorReply>(1)->code == Errc::mend);
}

TEST_CASE("Too few nodes at the join timeout end a job that never began, with the same text for everybody") {
  Desk desk(with_restarts(2, 2, 0));
  desk.launcher(9);
  desk.come(1, "a");
  desk.pass(600s);
  REQUIRE(desk.sent<JobClosed>(1).has_value());
  CHECK(desk.sent<JobClosed>(1)->node.empty());
  CHECK(desk.sent<JobClosed>(9)->exit_code == 125);
  CHECK(desk.sent<JobClosed>(9)->reason == desk.sent<JobClosed>(1)->reason);
  CHECK(contains(desk.sent<JobClosed>(9)->reason, "1 of 2 nodes joined; waiting for 1 more"));
  desk.hello(2, "b");
  CHECK(desk.sent<ErrorReply>(2)->code == Errc::job_over);
}

TEST_CASE("The launcher hears of a node that is lost, and of no other end of a round") {
  Desk desk(with_restarts(2, 2, 2));
  desk.launcher(9);
  desk.begin(2);
  desk.send(2, failure(0));
  CHECK_FALSE(desk.sent<RoundEnd>(9).has_value());
  desk.send(1, LeaveRound{0, RoundOutcome::stopped});
  desk.send(2, LeaveRound{0, RoundOutcome::failed});
  desk.begin(2, 1);
  desk.cut(2);
  REQUIRE(desk.sent<RoundEnd>(9).has_value());
  CHECK(desk.sent<RoundEnd>(9)->cause == RoundEndCause::node_lost);
  CHECK(desk.sent<RoundEnd>(9)->node == "b");
}

TEST_CASE("Once the job is over, no clock of a forming round rings any more") {
  CoordinatorOptions options = with_restarts(2, 2, 0);
  options.membership.dead_after = 0ms;
  Desk desk(options, 2);
  desk.send(1, LeaveRound{0, RoundOutcome::failed});
  desk.come(3, "c");
  CHECK(desk.count<effect::SetTimer>() == 1);
  desk.send(2, LeaveRound{0, RoundOutcome::stopped});
  REQUIRE(desk.count<effect::EndJob>() == 1);
  CHECK(desk.count<effect::SetTimer>() == 0);
  desk.pass(700s);
  CHECK(desk.count<effect::SetTimer>() == 0);
}

TEST_CASE("A newcomer does not get the place of one that waits after its success and is called again") {
  Desk desk(with_restarts(2, 2, 1), 2);
  desk.come(3, "c");
  desk.send(1, LeaveRound{0, RoundOutcome::succeeded});
  desk.send(2, LeaveRound{0, RoundOutcome::failed});
  desk.join(2);
  CHECK(desk.count<effect::OpenStore>() == 0);
  desk.join(1);
  CHECK(desk.count<effect::OpenStore>() == 1);
  desk.open(1);
  CHECK(desk.sent<RoundResult>(1)->node_rank == 0);
  CHECK_FALSE(desk.sent<RoundResult>(3).has_value());
}

TEST_CASE("A success that comes after the round has ended waits for nothing") {
  Desk desk(with_restarts(2, 2, 1), 2);
  desk.send(2, failure(0));
  desk.send(1, LeaveRound{0, RoundOutcome::succeeded});
  CHECK(desk.sent<Left>(1)->next == NextStep::join);
  desk.send(2, LeaveRound{0, RoundOutcome::failed});
  desk.begin(2, 1);
  desk.send(2, failure(1));
  desk.send(1, LeaveRound{1, RoundOutcome::succeeded});
  CHECK(desk.sent<Left>(1)->next == NextStep::end);
}

}  // namespace coordinator_job_test
