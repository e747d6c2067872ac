// SPDX-License-Identifier: Apache-2.0
#include "agent/core/agent_spec.hpp"
#include "agent/core/error_file.hpp"
#include "agent/core/link_message.hpp"
#include "agent/core/node_report.hpp"
#include "catch.hpp"

#include <csignal>
#include <stdexcept>

using namespace muster::agent;

TEST_CASE("A spec survives the way through JSON") {
  AgentSpec spec;
  spec.run_id = "job \"7\"\n";
  spec.command = {"python3", "-u", "train.py", "--x=\xff"};
  spec.first_script_argument = 3;
  spec.environment = {{"OMP_NUM_THREADS", "1"}};
  spec.store.port = 29500;
  spec.output.redirects.by_rank[11] = kStreamBoth;
  spec.output.tee.fallback = kStreamErr;
  spec.output.console_ranks = std::set<int>{0, 12};
  const AgentSpec read = agent_spec_from_json(to_json(spec));
  CHECK(read.run_id == spec.run_id);
  CHECK(read.command == spec.command);
  CHECK(read.first_script_argument == 3);
  CHECK(read.environment == spec.environment);
  CHECK(read.store.port == 29500);
  CHECK(read.output.redirects.of(11) == kStreamBoth);
  CHECK(read.output.redirects.of(1) == kStreamNone);
  CHECK(read.output.tee.of(1) == kStreamErr);
  CHECK(read.output.console_ranks == spec.output.console_ranks);
  CHECK(read.shutdown_timeout == spec.shutdown_timeout);
  CHECK(read.limits.restart_rule == muster::rendezvous::RestartRule::backoff);
  spec.limits.restart_rule = muster::rendezvous::RestartRule::progress;
  CHECK(agent_spec_from_json(to_json(spec)).limits.restart_rule == spec.limits.restart_rule);
  spec.limits.on_hang = muster::rendezvous::HangAction::abort;
  CHECK(agent_spec_from_json(to_json(spec)).limits.on_hang == spec.limits.on_hang);
  std::string unknown = to_json(spec);
  unknown.replace(unknown.find("\"progress\""), 10, "\"whenever\"");
  CHECK_THROWS_AS(agent_spec_from_json(unknown), std::invalid_argument);
  CHECK_FALSE(read.tell_worker_ends);
  spec.tell_worker_ends = true;
  CHECK(agent_spec_from_json(to_json(spec)).tell_worker_ends);
  CHECK_FALSE(read.report_after);
  spec.report_after = std::chrono::milliseconds(1500);
  CHECK(agent_spec_from_json(to_json(spec)).report_after == spec.report_after);
  CHECK_THROWS_AS(agent_spec_from_json("{}"), std::invalid_argument);
  CHECK_THROWS_AS(agent_spec_from_json("[1"), std::invalid_argument);
}

TEST_CASE("Each form of a node has fields of its own") {
  AgentSpec spec;
  CHECK(std::holds_alternative<AloneNode>(agent_spec_from_json(to_json(spec)).node.form));
  StartedNode started;
  started.listen_port = 7;
  started.peers = {"10.0.0.2"};
  started.expected_nodes = {"n0", "n1"};
  spec.node.form = started;
  spec.node.name = "n0";
  const AgentSpec of_started = agent_spec_from_json(to_json(spec));
  REQUIRE(std::holds_alternative<StartedNode>(of_started.node.form));
  CHECK(of_started.node.name == "n0");
  const auto& read = std::get<StartedNode>(of_started.node.form);
  CHECK(read.listen_port == 7);
  CHECK(read.peers == started.peers);
  CHECK(read.expected_nodes == started.expected_nodes);
  PeerNode peer;
  peer.hosting_inferred = true;
  peer.settings = {{"--nnodes", "2"}};
  spec.node.form = peer;
  const AgentSpec of_peer = agent_spec_from_json(to_json(spec));
  CHECK(std::get<PeerNode>(of_peer.node.form).hosting_inferred);
  CHECK(std::get<PeerNode>(of_peer.node.form).settings == peer.settings);
  std::string unknown = to_json(spec);
  unknown.replace(unknown.find("\"peer\""), 6, "\"pier\"");
  CHECK_THROWS_AS(agent_spec_from_json(unknown), std::invalid_argument);
}

TEST_CASE("A report survives the way through JSON") {
  NodeReport report;
  report.outcome = NodeOutcome::failed;
  WorkerReport worker;
  worker.outcome = WorkerOutcome::failed_by_itself;
  worker.status = {ExitStatus::Kind::signaled, SIGSEGV, true};
  worker.last_lines = {"a", "b"};
  worker.error.traceback = "Traceback";
  worker.call.text = "in barrier #3";
  worker.call.sequence = 3;
  worker.call.recent = {"world: barrier #2, 1.0 ms"};
  worker.cpu_limit_s = 7200;
  worker.stop_signal = SIGHUP;
  ThreadStack thread;
  thread.tid = 4712;
  thread.holds_gil = true;
  thread.frames = {{"train.py", 41, "step"}, {"train.py", 80, "main"}};
  worker.before_kill = {{"python3", "sleeping", {4711, "3.11.2", {thread}, "not all"}}};
  report.workers.push_back(worker);
  report.calls = {"rank 1 never entered barrier #3"};
  report.decisions.push_back({1, "rank 3 on n1 failed (exit code 1)",
                              "restarting all workers in 1 s (restart 2 of 5)", true, 2, 1000});
  report.leftovers = {"12 sleep"};
  report.hang = {muster::rendezvous::HangLevel::may_be, "rank 1 may be hung", 1500, 20};
  report.slow = "rank 1 on n1 is slow";
  report.host_causes = {{HostCauseKind::gpu_error, "GPU 3 had Xid 79", "2 s ago"}};
  const NodeReport read = node_report_from_json(to_json(report));
  CHECK(read.outcome == NodeOutcome::failed);
  REQUIRE(read.workers.size() == 1);
  CHECK(read.workers[0].status == worker.status);
  CHECK(read.hang.level == report.hang.level);
  CHECK(read.hang.text == report.hang.text);
  CHECK(read.slow == report.slow);
  CHECK(read.host_causes == report.host_causes);
  CHECK((read.hang.said_ms == 1500 && read.hang.moved_ms == 20));
  CHECK(read.workers[0].cpu_limit_s == 7200);
  CHECK(read.workers[0].stop_signal == SIGHUP);
  CHECK(read.workers[0].last_lines == worker.last_lines);
  REQUIRE(read.workers[0].before_kill.size() == 1);
  const ProcessPicture& picture = read.workers[0].before_kill[0];
  CHECK(picture.name + picture.state + picture.stacks.python + picture.stacks.error ==
        "python3sleeping3.11.2not all");
  CHECK(picture.stacks.pid == 4711);
  REQUIRE(picture.stacks.threads.size() == 1);
  CHECK(picture.stacks.threads[0].tid == 4712);
  CHECK(picture.stacks.threads[0].holds_gil);
  CHECK_FALSE(picture.stacks.threads[0].is_main);
  CHECK(picture.stacks.threads[0].frames == thread.frames);
  CHECK(read.workers[0].error.traceback == "Traceback");
  CHECK(read.leftovers == report.leftovers);
  CHECK(read.workers[0].call.text == "in barrier #3");
  CHECK(read.workers[0].call.sequence == 3);
  CHECK(read.workers[0].call.recent == worker.call.recent);
  CHECK(read.calls == report.calls);
  REQUIRE(read.decisions.size() == 1);
  CHECK(read.decisions[0].cause == report.decisions[0].cause);
  CHECK(read.decisions[0].decision == report.decisions[0].decision);
  CHECK(read.decisions[0].again);
  CHECK(read.decisions[0].restarts == 2);
  CHECK(read.decisions[0].delay_ms == 1000);
}

TEST_CASE("Error files are read in both forms, and whatever else is kept as text") {
  const WorkerError recorded = parse_error_file(
      R"__({"message":{"message":"ValueError: no","extraInfo":{"py_callstack":"Traceback (x)","timestamp":"1700000000"}}})__");
  CHECK(recorded.message == "ValueError: no");
  CHECK(recorded.traceback == "Traceback (x)");
  CHECK(recorded.timestamp_s == 1700000000);
  const WorkerError plain = parse_error_file(R"({"message":"out of luck","timestamp":17})");
  CHECK(plain.message == "out of luck");
  CHECK(plain.timestamp_s == 17);
  CHECK(parse_error_file("{half").message == "{half");
  // What Python writes of names that are no UTF-8, and of text that was cut in the middle of a character.
  CHECK(parse_error_file(R"({"message":"no file a\udcff"})").message == "no file a\xef\xbf\xbd");
  CHECK(parse_error_file(
            R"({"message":{"message":"\ud83d","extraInfo":{"py_callstack":"\ud83d\ude00 \ud83dx"}}})")
            .traceback == "\xf0\x9f\x98\x80 \xef\xbf\xbdx");
  CHECK(parse_error_file("{\"message\":\"a\xff\\\\ud800\"}").message == "a\xef\xbf\xbd\\ud800");
  CHECK(parse_error_file("{\"message\":\"\\ud800").message == "{\"message\":\"\\ud800");
  CHECK(parse_error_file(R"({"message":5})").message == R"({"message":5})");
  CHECK(parse_error_file(R"({"message":{"message":3,"extraInfo":[]}})").message.empty());
}

TEST_CASE("The line by which a failure is known again") {
  WorkerError none;
  WorkerError recorded;
  recorded.message = "\nValueError: no\tluck\nand more\n";
  const std::vector<std::string> traceback = {"epoch 3",
                                              "Traceback (most recent call last):",
                                              "  File \"train.py\", line 7",
                                              "    raise ValueError(\"no luck\")",
                                              "ValueError: no luck",
                                              "another error"};
  CHECK(error_line(recorded, traceback) == "ValueError: no luck");
  CHECK(error_line(none, traceback) == "ValueError: no luck");
  CHECK(error_line(none, {"loss 0.3", "prog: main.c:3: main: Assertion `x' failed."}) ==
        "prog: main.c:3: main: Assertion `x' failed.");
  CHECK(error_line(none, {"[E] FATAL\x1b[0m out of memory"}) == "[E] FATAL [0m out of memory");
  CHECK(error_line(none, {"loss 0.3", "loss 0.2"}).empty());
  CHECK(error_line(none, {}).empty());
}

TEST_CASE("Messages between launcher and agent") {
  const LinkMessage read = decode_link_message(encode({LinkMessage::Kind::stop, SIGINT, "a\nb"}));
  CHECK(read.kind == LinkMessage::Kind::stop);
  CHECK(read.number == SIGINT);
  CHECK(read.body == "a\nb");
  CHECK_THROWS_AS(decode_link_message("halt 1\n"), std::invalid_argument);
  CHECK_THROWS_AS(decode_link_message("stop x\n"), std::invalid_argument);
  CHECK_THROWS_AS(decode_link_message("stop 1"), std::invalid_argument);
}

TEST_CASE("a report that is too long goes without what workers said, or says only that") {
  NodeReport report;
  report.host = "h1";
  report.node = "n1";
  report.outcome = NodeOutcome::failed;
  report.workers.resize(3);
  for (WorkerReport& worker : report.workers) {
    worker.last_lines.assign(20, std::string(1000, 'x'));
    worker.error.message = std::string(1000, 'y');
    worker.before_kill.resize(4);
    worker.rank = 7;
  }
  const std::string whole = to_json(report);
  CHECK(to_json_within(report, whole.size()) == whole);
  const NodeReport shorter = node_report_from_json(to_json_within(report, whole.size() - 1));
  CHECK(shorter.outcome == NodeOutcome::failed);
  REQUIRE(shorter.workers.size() == 3);
  CHECK(shorter.workers[0].rank == 7);
  CHECK(shorter.workers[0].last_lines.empty());
  CHECK(shorter.workers[0].before_kill.empty());
  REQUIRE(shorter.notes.size() == 1);
  CHECK(shorter.notes[0].find("the report of h1 has " + std::to_string(whole.size()) + " bytes") == 0);
  const NodeReport shortest = node_report_from_json(to_json_within(report, 1000));
  CHECK(shortest.outcome == NodeOutcome::agent_error);
  CHECK(shortest.node == "n1");
  CHECK(shortest.workers.empty());
  CHECK(shortest.error.find("and 1000 are the most") != std::string::npos);
}
