// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_report/read_report.hpp"

#include "catch.hpp"
#include "launcher/exit_report/json.hpp"
#include "launcher/exit_report/text.hpp"
#include "tests/unit/launcher/exit_report/reports.hpp"

#include <nlohmann/json.hpp>
#include <signal.h>

#include <stdexcept>

using namespace muster::launcher;
using muster::agent::NodeOutcome;
using muster::agent::WorkerOutcome;
using Json = nlohmann::json;

namespace {

/// A report in which every part of the page has something to say.
ExitReport full_report() {
  auto first = node(NodeOutcome::failed, {worker(0, WorkerOutcome::stopped_by_us, killed_by(SIGTERM), 2),
                                          worker(1, WorkerOutcome::failed_by_itself, killed_by(SIGSEGV), 1)});
  auto second = node(NodeOutcome::stopped, {worker(2, WorkerOutcome::not_started, exited(0), 0),
                                            worker(3, WorkerOutcome::stopped_by_us, exited(7), 1),
                                            worker(4, WorkerOutcome::failed_by_itself, exited(9), 2)});
  first.max_restarts = second.max_restarts = 3;
  first.restarts = 2;
  first.decisions.push_back({2, "rank 1 on node7 failed", "no restart: none is left", false, 2, 0, true});
  first.notes = {"stdout of rank 1 was cut"};
  first.leftovers = {"sleep (pid 7)"};
  first.calls = {"rank 0 waits for rank 1"};
  first.hang = {muster::rendezvous::HangLevel::is_hung,
                "rank 1 on node7 is hung",
                1500,
                -1,
                {{{1}, {{"train.py", 41, "step"}}, false}}};
  first.slow = "rank 0 is slow";
  first.workers[1].last_lines = {"one", "two \x1b[2J"};
  first.workers[1].error = {"ValueError: x", "Traceback\n  line", 17};
  first.workers[1].memory = "over the memory limit";
  first.workers[1].call = {"in all_reduce #12", "in_call", "world", "all_reduce", 12, 11, 4, 9,
                           "sleeping",          {"a"}};
  second.workers[1].stop_signal = SIGTERM;
  second.workers[0].start_error = "no such file";
  second.workers[2].watchdog = "the timer of \x1b]0;title\x07\n  exit code  0";
  JobSpec spec = job();
  spec.arguments = {"train.py", "a b"};
  spec.version = "1.2.3";
  JobEnd end;
  end.notes = {"the disk is full"};
  end.unreported = {"n9"};
  end.hosts = {{"n8", "ssh: refused", "start sshd", false, true}};
  end.times = {1700000000123, 1700003726123, 3726000};
  ExitReport report = make_exit_report(spec, {first, second}, end);
  report.flight_record = {"rank 1 never entered all_reduce 12"};
  report.log_dir = "/var/log/job1";
  return report;
}

}  // namespace

TEST_CASE("A report that is read reads as it did when it was written") {
  const auto good = node(NodeOutcome::succeeded, {worker(0, WorkerOutcome::succeeded, exited(0), 1)});
  JobEnd refused;
  refused.hosts = {{"n8", "ssh: refused", "start sshd"}};
  const std::vector<ExitReport> reports{
      full_report(), make_exit_report(job(), {good}, {}),
      make_exit_report(job(), {good}, {JobEnd::Cause::interrupted, SIGINT, ""}),
      make_exit_report(job(), {}, {JobEnd::Cause::launcher_error, 0, "no port is free"}),
      make_exit_report(job(), {}, refused)};
  for (const ExitReport& report : reports) {
    const std::string json = to_json(report);
    const ExitReport read = report_from_json(json);
    CHECK(to_page(read) == to_page(report));
    CHECK(to_page(read).find('\x1b') == std::string::npos);
    CHECK(to_json(read) == json);
  }
  CHECK(to_page(reports[0]).find("\n  exit code  0") == std::string::npos);
  CHECK_THAT(to_page(reports[1]), Contains("muster: train.py succeeded\n") && Contains("  exit code  0\n"));
  CHECK(to_text(reports[1]).empty());
}

TEST_CASE("What an earlier muster did not write has its default") {
  const std::string json = to_json(full_report());
  for (const char* field : {"cause_says_decision", "time", "hang", "decisions", "muster_version"}) {
    Json older = Json::parse(json);
    REQUIRE(older.erase(field) == 1);
    for (Json* worker : {&older["nodes"][0]["workers"][1], &older["root_cause"]}) worker->erase("watchdog");
    CHECK(report_from_json(older.dump()).root()->rank == 1);
  }
}

TEST_CASE("What is no report is refused, and what is wrong with it is said") {
  const auto trouble = [](const std::string& text) -> std::string {
    try {
      report_from_json(text);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(trouble(""), Contains("parse error"));
  CHECK(trouble("[1]") == "it has no schema muster.report");
  CHECK(trouble(R"({"schema": "muster.job", "version": 2})") == "it has no schema muster.report");
  CHECK_THAT(trouble(R"({"schema": 3})"), Contains("type must be string"));
  Json other = Json::parse(to_json(full_report()));
  other["version"] = 2;
  CHECK(
      trouble(other.dump()) ==
      "it has version 2 of its schema, and this muster reads 1; show it with the muster that has written it");
  other["version"] = 1;
  other["outcome"] = "fine";
  CHECK(trouble(other.dump()) == "'fine' is no outcome of a job");
  other["outcome"] = "failed";
  other["root_cause"]["rank"] = 9;
  CHECK(trouble(other.dump()) == "its root_cause is no worker of its nodes");
  other["nodes"] = 5;
  CHECK_FALSE(trouble(other.dump()).empty());
}
