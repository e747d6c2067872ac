// SPDX-License-Identifier: Apache-2.0
#include "agent/core/node_verdict.hpp"

#include "catch.hpp"

#include <chrono>
#include <csignal>

using namespace muster;
using namespace muster::agent;

namespace {

rendezvous::RoundEnd end_by(const std::string& node) {
  rendezvous::RoundEnd end;
  end.round = 3;
  end.node = node;
  end.host = "host of " + node;
  end.rank = 5;
  end.exit_code = 9;
  end.text = "rank 5 on " + node + " failed";
  end.decision = "restarting all workers";
  return end;
}

rendezvous::JobClosed closed_by(const std::string& node) {
  rendezvous::JobClosed closed;
  closed.reason = "the reason";
  closed.node = node;
  closed.host = "host of " + node;
  closed.exit_code = 7;
  return closed;
}

rendezvous::FailRound failure_of_rank() {
  rendezvous::FailRound failure;
  failure.text = "rank 1 on h1 failed";
  failure.exit_code = 4;
  return failure;
}

NodeReport settled(const NodeVerdict& verdict, NodeOutcome outcome, bool goes_on = true,
                   bool succeeded = false) {
  NodeReport report;
  report.outcome = outcome;
  verdict.settle(report, goes_on, succeeded);
  return report;
}

}  // namespace

TEST_CASE(
    "The coordinator is told of the worker that failed, else of our failure, else of the order to end") {
  NodeVerdict verdict("n1", "h1");
  const auto leave = [&](const rendezvous::FailRound& failure, int signal) {
    return verdict.leave_round(2, RoundOutcome::failed, failure, signal);
  };
  CHECK(leave({}, 0).exit_code == rendezvous::LeaveRound{}.exit_code);
  CHECK(leave({}, SIGINT).text == "h1 was told to stop");
  CHECK(leave({}, SIGINT).exit_code == 130);
  verdict.told_to_stop("the agent was told to stop by SIGINT");
  CHECK(leave({}, SIGINT).text == "the agent was told to stop by SIGINT");
  verdict.fail("no directory");
  verdict.fail("what follows from it");
  CHECK(leave({}, SIGINT).text == "no directory");
  CHECK(leave({}, SIGINT).exit_code == 125);
  CHECK(leave(failure_of_rank(), SIGINT).text == "rank 1 on h1 failed");
  CHECK(leave(failure_of_rank(), SIGINT).exit_code == 4);
  CHECK(leave({}, 0).round == 2);
  CHECK(leave({}, 0).outcome == rendezvous::RoundOutcome::failed);
  CHECK(verdict.leave_round(2, RoundOutcome::succeeded, {}, 0).outcome ==
        rendezvous::RoundOutcome::succeeded);
  CHECK(verdict.leave_round(2, RoundOutcome::stopped, {}, 0).outcome == rendezvous::RoundOutcome::stopped);
}

TEST_CASE("The workers get the signal of a node that was told to stop, else SIGTERM") {
  rendezvous::RoundEnd end = end_by("n2");
  end.cause = rendezvous::RoundEndCause::node_left;
  end.exit_code = 128 + SIGINT;
  CHECK(stop_signal_of(end) == SIGINT);
  end.cause = rendezvous::RoundEndCause::node_failed;
  CHECK(stop_signal_of(end) == SIGTERM);
  end.cause = rendezvous::RoundEndCause::node_left;
  for (const int code : {0, 1, 128, 128 + 65}) {
    end.exit_code = code;
    CHECK(stop_signal_of(end) == SIGTERM);
  }
}

TEST_CASE("The end of a round is what the coordinator said of it, else this node's own failure") {
  NodeVerdict verdict("n1", "h1");
  rendezvous::Left left;
  left.round = 3;
  left.next = rendezvous::NextStep::join;
  left.restarts = 2;
  left.decision = "restarting";
  left.delay = std::chrono::milliseconds(1500);
  const rendezvous::RoundEnd own = verdict.end_of_round(left, failure_of_rank());
  CHECK((own.node == "n1" && own.text == "rank 1 on h1 failed" && own.again && own.restarts == 2));
  CHECK((own.decision == "restarting" && own.delay == left.delay));
  verdict.fail("the disk is full");
  CHECK(verdict.end_of_round(left, {}).text == "the disk is full");
  verdict.round_ended(end_by("n2"), true);
  verdict.round_ended(end_by("n3"), true);
  CHECK(verdict.end_of_round(left, failure_of_rank()).node == "n2");
  verdict.begin_round();
  CHECK_FALSE(verdict.round_has_ended());
}

TEST_CASE("Decisions are kept for the report, the last ones, of a job that goes on") {
  NodeVerdict verdict("n1", "h1");
  rendezvous::RoundEnd end = end_by("n2");
  end.again = true;
  verdict.note_decision(end, false);
  end.decision.clear();
  verdict.note_decision(end, true);
  CHECK(settled(verdict, NodeOutcome::succeeded).decisions.empty());
  for (int round = 0; round < static_cast<int>(kDecisionsKept) + 2; ++round) {
    end.decision = "again";
    end.round = round;
    end.again = round % 2 == 0;
    end.restarts = round + 1;
    end.delay = std::chrono::milliseconds(100 * round);
    end.decision_is_cause = end.again;
    verdict.note_decision(end, true);
  }
  const NodeReport report = settled(verdict, NodeOutcome::succeeded);
  REQUIRE(report.decisions.size() == kDecisionsKept);
  const RestartDecision& first = report.decisions.front();
  CHECK((first.round == 2 && first.cause == end.text && first.decision == "again"));
  CHECK((first.again && first.restarts == 3 && first.delay_ms == 200 && first.is_cause));
}

TEST_CASE("A failure of ours is the outcome, whatever else there is") {
  NodeVerdict verdict("n1", "h1");
  verdict.round_ended(end_by("n2"), true);
  verdict.fail("the guardian was killed");
  const NodeReport report = settled(verdict, NodeOutcome::failed, false);
  CHECK(report.outcome == NodeOutcome::agent_error);
  CHECK(report.error == "the guardian was killed");
  CHECK_FALSE(report.error_is_verdict);
  CHECK(report.ended_by.node.empty());
}

TEST_CASE("After an order to end a failure stays one, and somebody else's order is named") {
  NodeVerdict verdict("n1", "h1");
  CHECK(settled(verdict, NodeOutcome::stopped, false, true).outcome == NodeOutcome::succeeded);
  CHECK(settled(verdict, NodeOutcome::failed, false, false).outcome == NodeOutcome::failed);
  CHECK(settled(verdict, NodeOutcome::succeeded, false, false).outcome == NodeOutcome::stopped);
  CHECK(settled(verdict, NodeOutcome::succeeded, false, false).error.empty());
  verdict.told_to_stop("the agent was told to stop");
  CHECK(settled(verdict, NodeOutcome::stopped, false).error ==
        "the agent was told to stop; to end a job, signal its 'muster run'");
  CHECK(settled(verdict, NodeOutcome::failed, false).error.empty());
}

TEST_CASE("What ended the job elsewhere is named, and its end for want of nodes is an error") {
  NodeVerdict verdict("n1", "h1");
  SECTION("the end of the round") {
    verdict.round_ended(end_by("n2"), true);
    const NodeReport report = settled(verdict, NodeOutcome::stopped);
    CHECK((report.ended_by.node == "n2" && report.ended_by.rank == 5 && report.ended_by.exit_code == 9));
    CHECK(report.outcome == NodeOutcome::stopped);
  }
  SECTION("the end of the round was this node's, the job closed for another") {
    verdict.round_ended(end_by("n1"), true);
    verdict.job_closed(closed_by("n2"), true);
    CHECK(settled(verdict, NodeOutcome::failed).ended_by.node == "n2");
  }
  SECTION("the job closed for no node") {
    verdict.job_closed(closed_by(""), true);
    const NodeReport report = settled(verdict, NodeOutcome::stopped);
    CHECK((report.outcome == NodeOutcome::agent_error && report.error == "the reason" &&
           report.error_is_verdict));
  }
  SECTION("the job closed for this node's failure, which was to be made good") {
    verdict.job_closed(closed_by("n1"), true);
    CHECK(settled(verdict, NodeOutcome::stopped).error_is_verdict);
    CHECK_FALSE(settled(verdict, NodeOutcome::failed).error_is_verdict);
    CHECK(settled(verdict, NodeOutcome::failed).ended_by.node.empty());
  }
  SECTION("the job closed with success") {
    rendezvous::JobClosed closed = closed_by("n2");
    closed.succeeded = true;
    verdict.job_closed(closed, true);
    const NodeReport report = settled(verdict, NodeOutcome::succeeded);
    CHECK((report.outcome == NodeOutcome::succeeded && report.ended_by.node.empty()));
  }
}

TEST_CASE("An end that was decided before the order to end stays the cause") {
  rendezvous::RoundEnd for_good = end_by("n2");
  for_good.again = false;
  SECTION("the end of the round") {
    NodeVerdict verdict("n1", "h1");
    verdict.round_ended(for_good, true);
    CHECK(settled(verdict, NodeOutcome::stopped, false).ended_by.node == "n2");
  }
  SECTION("the end of the job") {
    NodeVerdict verdict("n1", "h1");
    verdict.job_closed(closed_by("n2"), true);
    CHECK(settled(verdict, NodeOutcome::stopped, false).ended_by.node == "n2");
  }
  SECTION("not if another round was to follow") {
    NodeVerdict verdict("n1", "h1");
    for_good.again = true;
    verdict.round_ended(for_good, true);
    CHECK(settled(verdict, NodeOutcome::stopped, false).ended_by.node.empty());
  }
  SECTION("not if it came after the order") {
    NodeVerdict verdict("n1", "h1");
    verdict.round_ended(for_good, false);
    verdict.job_closed(closed_by("n2"), false);
    CHECK(settled(verdict, NodeOutcome::stopped, false).ended_by.node.empty());
  }
  SECTION("not if the other node had the order sooner") {
    NodeVerdict verdict("n1", "h1");
    for_good.cause = rendezvous::RoundEndCause::node_left;
    verdict.round_ended(for_good, true);
    verdict.job_closed(closed_by("n2"), true);
    CHECK(settled(verdict, NodeOutcome::stopped, false).ended_by.node.empty());
  }
}

TEST_CASE("Of a job that was ordered to end the decision counts that no other round was to follow") {
  NodeVerdict verdict("n1", "h1");
  rendezvous::RoundEnd end = end_by("n1");
  end.again = true;
  verdict.note_decision(end, false);
  CHECK(settled(verdict, NodeOutcome::failed, false).decisions.empty());
  end.again = false;
  verdict.note_decision(end, false);
  CHECK(settled(verdict, NodeOutcome::failed, false).decisions.size() == 1);
  end.cause = rendezvous::RoundEndCause::node_left;
  verdict.note_decision(end, false);
  CHECK(settled(verdict, NodeOutcome::failed, false).decisions.size() == 1);
}

TEST_CASE("A hang that ended the round is no failure of any node") {
  NodeVerdict verdict("n1", "h1");
  rendezvous::RoundEnd end;
  end.cause = rendezvous::RoundEndCause::hung;
  end.text = "rank 3 is hung";
  end.exit_code = 1;
  end.rank = 3;
  verdict.round_ended(end, true);
  NodeReport report;
  report.outcome = NodeOutcome::stopped;
  verdict.settle(report, true, false);
  CHECK(report.ended_by.hung);
  CHECK(report.ended_by.node.empty());
  CHECK(report.ended_by.text == "rank 3 is hung");
  CHECK(report.ended_by.exit_code == 1);
  verdict.begin_round();
  verdict.round_ended(end_by("n2"), true);
  verdict.settle(report, true, false);
  CHECK_FALSE(report.ended_by.hung);
}
