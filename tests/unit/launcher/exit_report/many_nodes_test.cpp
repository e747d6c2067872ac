// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "launcher/exit_report/exit_report.hpp"
#include "launcher/exit_report/finish_job.hpp"
#include "launcher/exit_report/json.hpp"
#include "launcher/exit_report/text.hpp"
#include "tests/unit/launcher/exit_report/reports.hpp"

#include <signal.h>

using namespace muster::launcher;
using muster::agent::NodeOutcome;
using muster::agent::NodeReport;
using muster::agent::WorkerOutcome;

namespace {

NodeReport on(const std::string& name, NodeReport report) {
  report.node = name;
  report.host = name;
  for (auto& worker : report.workers) worker.host = name;
  return report;
}

NodeReport failed_on(const std::string& name, int rank, int code) {
  return on(name,
            node(NodeOutcome::failed, {worker(rank, WorkerOutcome::failed_by_itself, exited(code), 1)}));
}

NodeReport stopped_on(const std::string& name, int rank, const std::string& because_of) {
  NodeReport report = on(
      name, node(NodeOutcome::failed, {worker(rank, WorkerOutcome::stopped_by_us, killed_by(SIGTERM), 1)}));
  report.ended_by = {because_of, because_of, 3, 7, "rank 3 on " + because_of + ": exit code 7"};
  return report;
}

JobSpec four_nodes() {
  JobSpec spec = job();
  spec.nodes.resize(4);
  return spec;
}

ExitReport report_of(const std::vector<NodeReport>& reports, const JobEnd& end = {}) {
  return make_exit_report(four_nodes(), reports, end);
}

JobEnd with_hosts(std::vector<HostFailure> hosts) {
  JobEnd end;
  end.hosts = std::move(hosts);
  return end;
}

}  // namespace

TEST_CASE("The root cause is on the node that nobody else ended, whichever report comes first") {
  // n1's worker failed, too, when its peer was gone.
  NodeReport second = failed_on("n1", 1, 5);
  second.ended_by = {"n3", "n3", 3, 7, "rank 3 on n3: exit code 7"};
  const ExitReport report = report_of({stopped_on("n0", 0, "n3"), second, failed_on("n3", 3, 7)});
  CHECK(report.exit_code == 7);
  CHECK(report.cause == "rank 3 on n3: exit code 7");
  CHECK(contains(to_text(report), "failed by itself: rank 1 (exit code 5)"));
  CHECK(contains(to_text(report), "stopped by us: rank 0"));
}

TEST_CASE("Where the report of the failure itself is missing, the others say what they were told") {
  const ExitReport report = report_of({stopped_on("n0", 0, "n3")});
  CHECK(report.outcome == JobOutcome::failed);
  CHECK(report.exit_code == 7);
  CHECK(report.cause == "rank 3 on n3: exit code 7");
  CHECK(contains(report.advice, "n3"));
}

TEST_CASE("A host that cannot be started is named with cause and advice, and is nobody's worker's fault") {
  const ExitReport one =
      report_of({}, with_hosts({{"n2", "ssh: connection refused", "check that sshd runs there", false}}));
  CHECK(one.exit_code == 125);
  const std::string text = to_text(one);
  CHECK(text.starts_with("muster: error: train.py was not started: n2: ssh: connection refused\n"));
  CHECK(contains(text, "  next       check that sshd runs there\n"));
  CHECK_FALSE(contains(text, "  host "));

  const ExitReport two =
      report_of({}, with_hosts({{"n2", "ssh: connection refused", "check sshd", false},
                                {"n3", "ssh: no answer within 10 s", "check the host", false}}));
  const std::string both = to_text(two);
  CHECK(
      contains(both, "2 of 4 hosts could not be started: n2 (ssh: connection refused), n3 (ssh: no answer"));
  CHECK(contains(both, "  host       n2: ssh: connection refused; check sshd\n"));
  CHECK(contains(both, "  host       n3: ssh: no answer within 10 s; check the host\n"));
  CHECK(contains(to_json(two), "\"node\": \"n3\""));
}

TEST_CASE("A lost node is the cause unless a worker failed before") {
  const JobEnd lost = with_hosts({{"n1", "the agent process was lost (killed by SIGKILL)", "", true}});
  const ExitReport alone = report_of({stopped_on("n0", 0, "n1")}, lost);
  CHECK(alone.exit_code == 125);
  CHECK(alone.cause == "n1 was lost: the agent process was lost (killed by SIGKILL)");
  CHECK(to_text(alone).starts_with("muster: error: train.py stopped: n1 was lost: "));

  const JobEnd told = with_hosts(
      {{"n1", "node n1 is lost: silent for 5000 ms", "", true, false, HostFailure::Teller::coordinator}});
  CHECK(report_of({stopped_on("n0", 0, "n1")}, told).cause == "node n1 is lost: silent for 5000 ms");

  const ExitReport after = report_of({failed_on("n0", 0, 9)}, lost);
  CHECK(after.exit_code == 9);
  CHECK(contains(to_text(after), "  lost       n1: the agent process was lost"));
}

TEST_CASE("An elastic job that has lost its first node says that it holds the store, and what to do next") {
  JobSpec spec = four_nodes();
  for (std::size_t i = 0; i < 4; ++i) spec.nodes[i].name = "n" + std::to_string(i);
  spec.agent.limits.min_nodes = 2;
  spec.agent.limits.max_nodes = 4;
  const std::string word = "; n0 holds the store, and the job ends with it";
  HostFailure failure{"n0", "the agent process of n0 was lost (killed by SIGKILL)", "", true};
  failure.told_by = HostFailure::Teller::node;
  const NodeReport good = on("n1", node(NodeOutcome::stopped, {}));
  const ExitReport lost = make_exit_report(spec, {good}, with_hosts({failure}));
  CHECK(lost.exit_code == 125);
  CHECK(lost.cause == failure.cause + word);
  CHECK(contains(lost.advice, "start the job again"));
  NodeReport orphan = on("n0", node(NodeOutcome::agent_error, {}));
  orphan.error = "the guardian process of n0 was killed";
  CHECK(make_exit_report(spec, {orphan, good}, {}).cause == orphan.error + word);
  failure.node = "n1";
  CHECK_FALSE(contains(make_exit_report(spec, {}, with_hosts({failure})).cause, "holds the store"));
  failure.node = "n0";
  spec.agent.limits.min_nodes = 4;
  CHECK(make_exit_report(spec, {good}, with_hosts({failure})).cause == failure.cause);
}

TEST_CASE("A host that the job could do without changes no exit code, and is named") {
  HostFailure refused{"n2", "ssh: connection refused", "check sshd", false, true};
  const NodeReport good = on("n0", node(NodeOutcome::succeeded, {}));
  const ExitReport fewer = report_of({good, on("n1", good)}, with_hosts({refused}));
  CHECK(fewer.exit_code == 0);
  CHECK(contains(to_text(fewer),
                 "note: the job ended without n2, which could not be started: ssh: connection refused"));
  const ExitReport after = report_of({failed_on("n0", 0, 9)}, with_hosts({refused}));
  CHECK(after.exit_code == 9);
  CHECK(contains(to_text(after), "  host       n2: ssh: connection refused"));

  HostFailure lost{"n1", "the agent process was lost", "", true, true};
  CHECK(report_of({good}, with_hosts({lost})).exit_code == 0);
  const ExitReport ended = report_of({stopped_on("n0", 0, "n1")}, with_hosts({lost}));
  CHECK(ended.exit_code == 125);
  CHECK(ended.cause == "n1 was lost: the agent process was lost");
  // Under torchrun such a loss costs a restart.
  JobSpec spec = four_nodes();
  spec.agent.limits.restart_rule = muster::rendezvous::RestartRule::torchrun;
  const auto cause = [&spec, &lost] {
    return make_exit_report(spec, {stopped_on("n0", 0, "n1")}, with_hosts({lost})).cause;
  };
  CHECK(cause() == "n1 was lost: the agent process was lost; no restart is left (--max-restarts 0)");
  // The coordinator's sentence holds the decision only where that ended the job.
  lost.told_by = HostFailure::Teller::coordinator;
  lost.cause = "node n1 is lost: silent for 5000 ms";
  CHECK(cause() == lost.cause + "; no restart is left (--max-restarts 0)");
  lost.says_decision = true;
  CHECK(cause() == lost.cause);
}

TEST_CASE("What was decided at the end of each round is told once, whoever heard it") {
  const auto decided = [](int round, const std::string& decision, bool again) {
    return muster::agent::RestartDecision{round, "rank 3 on n3 failed (exit code 7)", decision, again, 1, 0};
  };
  NodeReport first = stopped_on("n0", 0, "n3");
  first.max_restarts = 5;
  first.restarts = 1;
  first.decisions = {decided(0, "restarting all workers (restart 1 of 5)", true)};
  NodeReport second = failed_on("n3", 3, 7);
  second.decisions = {decided(0, "restarting all workers (restart 1 of 5)", true),
                      decided(1, "no restart: exit code 127 says that", false)};
  const ExitReport report = report_of({first, second});
  REQUIRE(report.decisions.size() == 2);
  CHECK(report.decisions[0].again);
  CHECK(report.decisions[1].round == 1);
  CHECK(contains(to_text(report), "  restarts   1 of 5 used; no restart: exit code 127 says that\n"));

  // A verdict that ends with the decision has told it.
  first.decisions.push_back(decided(1, "1 node is left, and the job needs 2", false));
  first.decisions.back().is_cause = true;
  JobEnd lost = with_hosts({{"n3", "node n3 is lost; 1 node is left, and the job needs 2", "", true, false,
                             HostFailure::Teller::coordinator, true}});
  CHECK(contains(to_text(report_of({first}, lost)), "  restarts   1 of 5 used\n"));
  lost.hosts[0].says_decision = false;
  CHECK(contains(to_text(report_of({first}, lost)), "1 of 5 used; 1 node is left, and the job needs 2\n"));

  // A node that gives up says why it did, and not what was decided then; its verdict on the job does.
  NodeReport gave_up = on("n1", node(NodeOutcome::agent_error, {}));
  gave_up.error = "the guardian process of n1 was killed by SIGKILL";
  CHECK(contains(to_text(report_of({first, gave_up})), "1 of 5 used; 1 node is left, and the job needs 2\n"));
  gave_up.error_is_verdict = true;
  CHECK(contains(to_text(report_of({first, gave_up})), "  restarts   1 of 5 used\n"));
}

TEST_CASE("A node that somebody told to stop says which of our processes that was") {
  NodeReport told = on("n1", node(NodeOutcome::stopped, {}));
  told.error = "the guardian process of n1 was told to stop by SIGHUP";
  const NodeReport other = on("n0", node(NodeOutcome::stopped, {}));
  const ExitReport report = report_of({other, told});
  CHECK(report.exit_code == 125);
  CHECK(report.cause == told.error);
  // The launcher was told as well, and that is why the job ended.
  JobEnd interrupted;
  interrupted.cause = JobEnd::Cause::interrupted;
  interrupted.signal = SIGTERM;
  CHECK(report_of({other, told}, interrupted).exit_code == 143);
}

TEST_CASE("What workers do after our signal is no cause, whatever their code") {
  NodeReport told = on(
      "n1", node(NodeOutcome::stopped, {worker(0, WorkerOutcome::stopped_by_us, exited(5), 1),
                                        worker(1, WorkerOutcome::failed_by_itself, killed_by(SIGSEGV), 2)}));
  told.error = "the agent process of n1 was told to stop by SIGTERM";
  for (auto& worker : told.workers) worker.stop_signal = SIGTERM;
  const ExitReport report = report_of({told});
  CHECK(report.exit_code == 125);
  CHECK(report.cause == told.error);
  CHECK(contains(to_text(report), "  others     told to stop: rank 0 (exit code 5 after our SIGTERM)\n"));
  CHECK(contains(to_text(report), "  failed     rank 1 on n1: killed by SIGSEGV after our SIGTERM"));
  CHECK_FALSE(contains(to_text(report), "stopped by us"));
}

TEST_CASE("A worker that failed for good before an order to end decides") {
  NodeReport failed = failed_on("n1", 0, 7);
  CHECK(failed_before_order({failed}));
  failed.max_restarts = 1;
  CHECK_FALSE(failed_before_order({failed}));
  failed.decisions.push_back({});
  failed.decisions.back().round = failed.round;
  failed.decisions.back().again = true;
  CHECK_FALSE(failed_before_order({failed}));
  failed.decisions.back().again = false;  // as after exit code 127
  CHECK(failed_before_order({failed}));
  failed.decisions.clear();
  failed.restarts = 1;
  CHECK(failed_before_order({on("n0", node(NodeOutcome::stopped, {})), failed}));
  failed.outcome = NodeOutcome::stopped;
  CHECK_FALSE(failed_before_order({failed}));
  CHECK_FALSE(failed_before_order({}));
  NodeReport peer = on("n0", node(NodeOutcome::stopped, {}));
  peer.ended_by.node = "n1";
  CHECK(failed_before_order({peer}));
  CHECK_FALSE(failed_before_order({on("n1", node(NodeOutcome::stopped, {})), peer}));
}

TEST_CASE("A node that gave up before the last round of an elastic job changes no exit code, and is named") {
  JobSpec spec = four_nodes();
  spec.agent.limits.min_nodes = 2;
  spec.agent.limits.max_nodes = 3;
  std::vector<NodeReport> reports = {
      on("n2",
         node(NodeOutcome::agent_error, {worker(2, WorkerOutcome::stopped_by_us, killed_by(SIGTERM), 1)})),
      on("n0", node(NodeOutcome::succeeded, {worker(0, WorkerOutcome::succeeded, exited(0), 1)})),
      on("n1", node(NodeOutcome::succeeded, {worker(1, WorkerOutcome::succeeded, exited(0), 1)}))};
  reports[0].error = "the guardian process of n2 was killed";
  reports[1].round = reports[2].round = 1;
  reports[1].restarts = reports[2].restarts = 1;
  const ExitReport report = make_exit_report(spec, reports, {});
  CHECK(report.exit_code == 0);
  CHECK(report.restarts() == 1);
  CHECK(to_text(report) ==
        "muster: note: the job ended without n2, which gave up: the guardian process of n2 was killed\n");

  SECTION("a node that never joined") {
    reports[0].workers.clear();
    CHECK(make_exit_report(spec, reports, {}).exit_code == 0);
  }
  SECTION("its error came in the last round") {
    reports[0].round = 1;
    CHECK(make_exit_report(spec, reports, {}).exit_code == 125);
  }
  SECTION("its error came after its part in the last round") {
    reports[0].round = 1;
    reports[0].workers[0] = worker(2, WorkerOutcome::succeeded, exited(0), 1);
    CHECK(make_exit_report(spec, reports, {}).exit_code == 0);
    CHECK(contains(to_text(make_exit_report(spec, reports, {})), "without n2, which gave up"));
  }
  SECTION("fewer than the job needs are left") {
    spec.agent.limits.min_nodes = 3;
    spec.agent.limits.max_nodes = 4;
    CHECK(make_exit_report(spec, reports, {}).exit_code == 125);
  }
  SECTION("the job is not elastic") {
    spec.agent.limits.max_nodes = 2;
    CHECK(make_exit_report(spec, reports, {}).exit_code == 125);
  }
  SECTION("a worker of another node failed") {
    reports[2].outcome = NodeOutcome::failed;
    reports[2].workers[0] = worker(1, WorkerOutcome::failed_by_itself, exited(4), 1);
    CHECK(make_exit_report(spec, reports, {}).exit_code == 4);
  }
}

TEST_CASE("Nodes that said nothing are named") {
  JobEnd end;
  end.unreported = {"n1", "n2"};
  const NodeReport good = on("n0", node(NodeOutcome::succeeded, {}));
  CHECK(report_of({good}, end).exit_code == 125);
  CHECK(contains(report_of({good}, end).cause, "n1, n2"));
  end.cause = JobEnd::Cause::interrupted;
  end.signal = SIGINT;
  CHECK(report_of({good}, end).exit_code == 130);
  CHECK(contains(to_text(report_of({good}, end)), "  missing    no report from n1, n2\n"));
}

TEST_CASE("Text from other hosts cannot reach the terminal raw") {
  CHECK_FALSE(contains(to_text(report_of({}, with_hosts({{"n2", "\x1b[2J", "\x1b]0;x", false}}))), "\x1b"));
}

TEST_CASE("A hang that was not let stand is the cause, not what workers did when they were told to stop") {
  NodeReport first = failed_on("n0", 0, 5);
  NodeReport second = on("n1", node(NodeOutcome::stopped, {}));
  for (NodeReport* one : {&first, &second}) {
    one->ended_by = {"", "", 3, 1, "rank 3 on n1 (train.py:41) is hung: it sleeps since 61 s", true};
    one->hang = {muster::rendezvous::HangLevel::is_hung, one->ended_by.text, 20, -1};
    one->max_restarts = 2;
    one->decisions.push_back(
        {0, one->ended_by.text, "no restart: a job that is hung ends (--on-hang abort)"});
  }
  const ExitReport report = report_of({first, second});
  CHECK(report.outcome == JobOutcome::failed);
  CHECK(report.exit_code == 1);
  CHECK(report.cause == first.ended_by.text);
  CHECK(report.root() == nullptr);
  const std::string text = to_text(report);
  CHECK_THAT(text, StartsWith("muster: error: train.py failed: rank 3 on n1 (train.py:41) is hung"));
  CHECK_THAT(text, Contains("0 of 2 used; no restart: a job that is hung ends (--on-hang abort)\n"));
  CHECK_FALSE(contains(text, "  hang  "));
  // The deadline that passes while the nodes end is not the cause.
  CHECK(failed_before_order({first, second}));
  first.decisions.back().again = true;
  CHECK_FALSE(failed_before_order({first}));
}
