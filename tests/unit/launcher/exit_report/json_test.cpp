// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_report/json.hpp"

#include "catch.hpp"
#include "launcher/exit_report/text.hpp"
#include "tests/unit/launcher/exit_report/reports.hpp"

#include <nlohmann/json.hpp>
#include <signal.h>

using namespace muster::launcher;
using muster::agent::NodeOutcome;
using muster::agent::WorkerOutcome;
using Json = nlohmann::json;

TEST_CASE("The report as JSON holds the verdict, the root cause and every node") {
  muster::agent::NodeReport report =
      node(NodeOutcome::failed, {worker(0, WorkerOutcome::stopped_by_us, killed_by(SIGTERM), 2),
                                 worker(1, WorkerOutcome::failed_by_itself, killed_by(SIGSEGV), 1)});
  report.workers[1].last_lines = {"bytes \xff that are no text"};
  const Json value = Json::parse(to_json(make_exit_report(job(), {report}, {})));
  CHECK(value.at("schema") == "muster.report");
  CHECK(value.at("version") == 1);
  CHECK(value.at("outcome") == "failed");
  CHECK(value.at("exit_code") == 139);
  CHECK(value.at("program") == "train.py");
  CHECK(value.at("run_id") == "job1");
  CHECK(value.at("root_cause").at("rank") == 1);
  CHECK(value.at("root_cause").at("outcome") == "failed_by_itself");
  CHECK(value.at("root_cause").at("status").at("value") == SIGSEGV);
  CHECK(value.at("nodes").size() == 1);
  CHECK(value.at("nodes")[0].at("workers").size() == 2);
}

TEST_CASE("The report says when the job ran, how long, and what was asked for") {
  JobSpec spec = job();
  spec.arguments = {"--export=API_KEY=...", "train.py", "a b\x1b"};
  spec.version = "1.2.3";
  JobEnd end;
  end.times = {1700000000123, 1700003726123, 3726000};
  const auto failed = node(NodeOutcome::failed, {worker(0, WorkerOutcome::failed_by_itself, exited(3), 1)});
  const ExitReport report = make_exit_report(spec, {failed}, end);
  const Json value = Json::parse(to_json(report));
  CHECK(value.at("arguments") == Json(spec.arguments));
  CHECK(value.at("muster_version") == "1.2.3");
  CHECK(value.at("started_at_ms") == 1700000000123);
  CHECK(value.at("ended_at_ms") == 1700003726123);
  CHECK(value.at("duration_ms") == 3726000);
  const std::string text = to_text(report);
  CHECK_THAT(text, Contains("  ran        1 h 2 min, from 2023-11-1"));
  CHECK_THAT(text,
             Contains("  command    muster run --export=API_KEY=... train.py a b\\x1b (version 1.2.3)\n"));
}

TEST_CASE("The report as JSON says what the restart policy decided, once for the job") {
  muster::agent::NodeReport report =
      node(NodeOutcome::failed, {worker(0, WorkerOutcome::failed_by_itself, exited(3), 1)});
  report.decisions.push_back({4, "rank 0 on node7 failed (exit code 3)",
                              "restarting all workers in 8 s (restart 5 of 9)", true, 5, 8000});
  muster::launcher::JobSpec spec = job();
  spec.agent.limits.restart_rule = muster::rendezvous::RestartRule::progress;
  const Json value = Json::parse(to_json(make_exit_report(spec, {report}, {})));
  CHECK(value.at("restart_policy") == "progress");
  REQUIRE(value.at("decisions").size() == 1);
  const Json& decision = value.at("decisions")[0];
  CHECK(decision.at("round") == 4);
  CHECK(decision.at("cause") == "rank 0 on node7 failed (exit code 3)");
  CHECK(decision.at("decision") == "restarting all workers in 8 s (restart 5 of 9)");
  CHECK(decision.at("again") == true);
  CHECK(decision.at("restarts") == 5);
  CHECK(decision.at("delay_ms") == 8000);
  CHECK_FALSE(value.at("nodes")[0].contains("decisions"));
}

TEST_CASE("The report as JSON has the verdict on a hang, once for the job") {
  muster::agent::NodeReport report =
      node(NodeOutcome::stopped, {worker(0, WorkerOutcome::stopped_by_us, killed_by(SIGTERM), 1)});
  const JobEnd end{JobEnd::Cause::interrupted, SIGINT, ""};
  CHECK(Json::parse(to_json(make_exit_report(job(), {report}, end))).at("hang").is_null());
  report.hang = {muster::rendezvous::HangLevel::is_hung,
                 "rank 0 on node7 is hung",
                 1500,
                 -1,
                 {{{0}, {{"train.py", 41, "step"}}, false}}};
  const Json value = Json::parse(to_json(make_exit_report(job(), {report}, end)));
  CHECK(
      value.at("hang") ==
      Json::parse(R"({"level": "is_hung", "text": "rank 0 on node7 is hung", "said_ms": 1500, "moved_ms": -1,
                        "stacks": [{"ranks": [0], "truncated": false,
                                    "frames": [{"file": "train.py", "line": 41, "function": "step"}]}]})"));
  CHECK_FALSE(value.at("nodes")[0].contains("hang"));
}

TEST_CASE("The report has the stacks of a hang of all nodes of the last round") {
  std::vector<muster::agent::NodeReport> reports;
  for (int rank = 0; rank < 3; ++rank) {
    reports.push_back(
        node(NodeOutcome::stopped, {worker(rank, WorkerOutcome::stopped_by_us, killed_by(SIGTERM), 1)}));
    reports.back().round = rank < 2 ? 1 : 0;
    reports.back().hang = {muster::rendezvous::HangLevel::is_hung,
                           "rank 0 is hung",
                           0,
                           -1,
                           {{{rank}, {{"train.py", 41, "step"}}, false}}};
  }
  const Json value =
      Json::parse(to_json(make_exit_report(job(), reports, {JobEnd::Cause::interrupted, SIGINT, ""})));
  CHECK(value.at("hang").at("stacks").size() == 1);
  CHECK(value.at("hang").at("stacks")[0].at("ranks") == Json{0, 1});
}

TEST_CASE("Each outcome has its word, and no root cause is null") {
  using Cause = JobEnd::Cause;
  const auto value = [](const std::vector<muster::agent::NodeReport>& reports, const JobEnd& end) {
    return Json::parse(to_json(make_exit_report(job(), reports, end)));
  };
  const auto good = node(NodeOutcome::succeeded, {worker(0, WorkerOutcome::succeeded, exited(0), 1)});
  CHECK(value({good}, {}).at("outcome") == "succeeded");
  CHECK(value({good}, {}).at("root_cause").is_null());
  CHECK(value({}, {Cause::interrupted, SIGINT, ""}).at("outcome") == "interrupted");
  CHECK(value({}, {Cause::deadline, 0, ""}).at("outcome") == "deadline");
  CHECK(value({}, {Cause::launcher_error, 0, "x"}).at("outcome") == "launcher_error");
}

TEST_CASE("The error file that goes up carries the error code inside message") {
  const std::string usual =
      R"({"message":{"message":"ValueError: x","extraInfo":{"py_callstack":"t","timestamp":"17"}}})";
  const Json with_code = Json::parse(error_file_with_code(usual, exited(3)));
  CHECK(with_code.at("message").at("errorCode") == 3);
  CHECK(with_code.at("message").at("extraInfo").at("timestamp") == "17");
  CHECK(Json::parse(error_file_with_code(usual, killed_by(SIGKILL))).at("message").at("errorCode") == -9);
  const std::string plain = R"({"message":"text","timestamp":5})";
  CHECK(Json::parse(error_file_with_code(plain, exited(3))) == Json::parse(plain));
  for (const std::string& odd :
       {std::string("not json"), std::string(""), std::string("[1]"), std::string("{}")}) {
    CAPTURE(odd);
    const Json wrapped = Json::parse(error_file_with_code(odd, exited(3)));
    CHECK(wrapped.at("message").at("message") == odd);
    CHECK(wrapped.at("message").at("errorCode") == 3);
  }
  CHECK(Json::parse(error_file_with_code(R"({"message":{"message":"\udcff"}})", exited(3)))
            .at("message")
            .at("message") == "\xef\xbf\xbd");
  CHECK(error_file_with_code("{\"message\":{\"message\":\"\xc3\xa9\"}}", exited(1)).find("\\u00e9") !=
        std::string::npos);
}
