// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_report/exit_report.hpp"

#include "catch.hpp"
#include "launcher/exit_report/json.hpp"
#include "launcher/exit_report/text.hpp"
#include "tests/unit/launcher/exit_report/reports.hpp"

#include <signal.h>

#include <algorithm>
#include <string>

namespace exit_report_test {

using namespace muster::launcher;
using muster::agent::NodeOutcome;
using muster::agent::NodeReport;
using muster::agent::WorkerOutcome;

namespace {

constexpr auto kFailed = WorkerOutcome::failed_by_itself;
constexpr auto kStopped = WorkerOutcome::stopped_by_us;
constexpr auto kSucceeded = WorkerOutcome::succeeded;

/// Two workers of which rank 1 failed first.
NodeReport failed_with(const muster::agent::ExitStatus& status) {
  return node(NodeOutcome::failed,
              {worker(0, kStopped, killed_by(SIGTERM), 2), worker(1, kFailed, status, 1)});
}

}  // namespace

TEST_CASE("Exit codes") {
  const NodeReport good = node(NodeOutcome::succeeded, {worker(0, kSucceeded, exited(0), 1)});
  const NodeReport stopped = node(NodeOutcome::stopped, {worker(0, kStopped, killed_by(SIGTERM), 1)});
  NodeReport broken = node(NodeOutcome::agent_error, {});
  broken.error = "the store could not listen";
  NodeReport not_started = node(NodeOutcome::failed, {worker(0, WorkerOutcome::not_started, exited(127), 0)});
  NodeReport not_executable =
      node(NodeOutcome::failed, {worker(0, WorkerOutcome::not_started, exited(0), 0)});

  struct Row {
    std::vector<NodeReport> reports;
    JobEnd end;
    int exit_code;
    JobOutcome outcome;
  };

  using Cause = JobEnd::Cause;
  const Row rows[] = {
      {{good}, {}, 0, JobOutcome::succeeded},
      {{failed_with(exited(3))}, {}, 3, JobOutcome::failed},
      {{failed_with(exited(255))}, {}, 255, JobOutcome::failed},
      {{failed_with(killed_by(SIGSEGV))}, {}, 139, JobOutcome::failed},
      {{failed_with(killed_by(SIGKILL))}, {}, 137, JobOutcome::failed},
      {{not_started}, {}, 127, JobOutcome::failed},
      {{not_executable}, {}, 126, JobOutcome::failed},
      {{stopped}, {Cause::interrupted, SIGINT, ""}, 130, JobOutcome::interrupted},
      {{stopped}, {Cause::interrupted, SIGTERM, ""}, 143, JobOutcome::interrupted},
      {{stopped}, {Cause::interrupted, SIGHUP, ""}, 129, JobOutcome::interrupted},
      {{stopped}, {Cause::interrupted, SIGQUIT, ""}, 131, JobOutcome::interrupted},
      {{good}, {Cause::interrupted, SIGINT, ""}, 130, JobOutcome::interrupted},
      {{stopped}, {Cause::deadline, 0, ""}, 124, JobOutcome::deadline},
      {{}, {Cause::launcher_error, 0, "the agent died"}, 125, JobOutcome::launcher_error},
      {{good}, {Cause::launcher_error, 0, "the agent died"}, 125, JobOutcome::launcher_error},
      {{broken}, {}, 125, JobOutcome::launcher_error},
      {{}, {}, 125, JobOutcome::launcher_error},
      {{stopped}, {}, 125, JobOutcome::launcher_error},
  };
  int index = 0;
  for (const Row& row : rows) {
    CAPTURE(index++);
    const ExitReport report = make_exit_report(job(), row.reports, row.end);
    CHECK(report.exit_code == row.exit_code);
    CHECK(report.outcome == row.outcome);
  }
}

TEST_CASE("The root cause is the failure that arrived first, not the lowest rank or the first second") {
  const NodeReport report = node(
      NodeOutcome::failed, {worker(0, kFailed, exited(1), 3), worker(1, kStopped, killed_by(SIGTERM), 1),
                            worker(2, kFailed, killed_by(SIGABRT), 2), worker(3, kSucceeded, exited(0), 4)});
  const ExitReport verdict = make_exit_report(job(), {report}, {});
  REQUIRE(verdict.root() != nullptr);
  CHECK(verdict.root()->rank == 2);
  CHECK(verdict.exit_code == 134);
  const ExitReport second_node = make_exit_report(job(), {node(NodeOutcome::stopped, {}), report}, {});
  CHECK(second_node.root_node == 1);
}

TEST_CASE("A success says nothing, unless something is worth knowing") {
  NodeReport report = node(NodeOutcome::succeeded, {worker(0, kSucceeded, exited(0), 1)});
  CHECK(to_text(make_exit_report(job(), {report}, {})).empty());
  report.leftovers = {"4711 sleep"};
  report.notes = {"log of rank 0 is cut"};  // said by the agent when it happened
  CHECK(to_text(make_exit_report(job(), {report}, {})) ==
        "muster: note: left running by a worker, ended by us: 4711 sleep\n");
}

TEST_CASE("The report names the first of many processes that were left running, and counts the rest") {
  NodeReport report = node(NodeOutcome::succeeded, {worker(0, kSucceeded, exited(0), 1)});
  for (int pid = 1001; pid <= 1200; ++pid) report.leftovers.push_back(std::to_string(pid) + " sleep");
  const std::string text = to_text(make_exit_report(job(), {report}, {}));
  CHECK(std::count(text.begin(), text.end(), '\n') == 6);
  CHECK(text.find("ended by us: 1005 sleep\n") != std::string::npos);
  CHECK(text.find("1006") == std::string::npos);
  CHECK(text.ends_with(
      "muster: note: and 195 more left running by a worker, ended by us; --report FILE names all\n"));
  CHECK(to_json(make_exit_report(job(), {report}, {})).find("1200 sleep") != std::string::npos);
  report.outcome = NodeOutcome::failed;
  report.workers = {worker(0, kFailed, exited(3), 1)};
  CHECK(to_text(make_exit_report(job(), {report}, {})).find("  leftover   and 195 more") !=
        std::string::npos);
}

TEST_CASE("A limit that the kernel enforced is named, and not taken for a lack of memory") {
  auto root = worker(0, kFailed, killed_by(SIGKILL), 1);
  const auto advice = [&root] {
    return make_exit_report(job(), {node(NodeOutcome::failed, {root})}, {}).advice;
  };
  CHECK(advice().find("out-of-memory") != std::string::npos);
  root.memory_ruled_out = true;
  CHECK(advice().starts_with("somebody sent it: "));
  CHECK(advice().find("out-of-memory") == std::string::npos);
  root.memory = "over the memory limit of 512 MiB of cgroup '/job' (peak 512 MiB)";
  CHECK(advice().starts_with("use less memory, "));
  CHECK(
      make_exit_report(job(), {node(NodeOutcome::failed, {root})}, {}).cause ==
      "rank 0 on node7: killed by SIGKILL: over the memory limit of 512 MiB of cgroup '/job' (peak 512 MiB)");
  root.memory.clear();
  root.cpu_limit_s = 3600;
  CHECK(advice() == "it used up its limit of 3600 s of CPU time: raise it (ulimit -t)");
  root.cpu_limit_s = 0;
  root.status = killed_by(SIGXCPU);
  CHECK(advice().find("ulimit -t") != std::string::npos);
  root.status = killed_by(SIGXFSZ);
  CHECK(advice().find("ulimit -f") != std::string::npos);
}

TEST_CASE("Workers that each had an MPI of their own are told of, once") {
  JobSpec spec = job();
  NodeReport both = node(NodeOutcome::succeeded,
                         {worker(0, kSucceeded, exited(0), 1), worker(1, kSucceeded, exited(0), 2)});
  both.leftovers = {"101 orted", "102 orted"};
  const auto notes = [&] { return make_exit_report(spec, {both}, {}).notes; };
  REQUIRE(notes().size() == 1);
  CHECK(notes()[0].starts_with("a worker has used MPI (it started orted) and was rank 0 of 1 there"));
  spec.allow_singletons = true;
  CHECK(notes().empty());
  spec.allow_singletons = false;
  both.leftovers = {"101 sorted", "102 sleep"};
  CHECK(notes().empty());
  both.leftovers = {"101 orted"};
  both.workers.pop_back();
  CHECK(notes().empty());
}

TEST_CASE("A shared library or command that was not found is told with what to do") {
  JobSpec spec = job();
  spec.agent.command = {"./prog"};
  spec.agent.first_script_argument = 1;
  auto root = worker(0, kFailed, exited(127), 1);
  const auto advice = [&] { return make_exit_report(spec, {node(NodeOutcome::failed, {root})}, {}).advice; };
  CHECK(advice() ==
        "127 means that a command or a shared library was not found; of a library 'ldd ./prog' tells which: "
        "link with -Wl,-rpath,DIR, or set LD_LIBRARY_PATH to its folder");
  root.last_lines = {
      "./prog: error while loading shared libraries: libmuster.so.0: cannot open shared object "
      "file: No such file or directory"};
  CHECK(
      advice() ==
      "the folder of libmuster.so.0 is not searched: link with -Wl,-rpath,DIR, or set LD_LIBRARY_PATH to its "
      "folder ('ldd ./prog' lists all)");
  root.error.message = "it says itself";
  CHECK(advice().empty());
  root.error.message.clear();
  root.status = exited(1);
  CHECK(advice().empty());
  spec = job();  // a Python script
  root.status = exited(127);
  CHECK(advice().empty());
}

TEST_CASE("The report says where workers were that had to be killed, equal places once") {
  auto root = worker(1, kFailed, exited(3), 1);
  auto hung = worker(0, kStopped, killed_by(SIGKILL), 2);
  muster::agent::ThreadStack thread;
  thread.is_main = true;
  thread.frames = {{"train.py", 41, "step\x1b[2J"}};
  hung.before_kill = {{"python3", "sleeping", {100, "3.11.2", {thread}, ""}}};
  auto also = hung;
  also.rank = 2;
  const ExitReport report = make_exit_report(job(), {node(NodeOutcome::failed, {hung, root, also})}, {});
  CHECK(to_text(report).find("  others     stopped by us, with KILL: ranks 0, 2\n"
                             "  before KILL\n"
                             "    | ranks 0, 2: train.py:41 step\\x1b[2J\n") != std::string::npos);
  CHECK(to_json(report).find("\"before_kill\"") != std::string::npos);
}

TEST_CASE("Text of a failure with a traceback") {
  NodeReport report =
      node(NodeOutcome::failed,
           {worker(0, kStopped, killed_by(SIGTERM), 2), worker(1, kFailed, exited(3), 1),
            worker(2, kStopped, killed_by(SIGKILL), 4), worker(3, kFailed, killed_by(SIGSEGV, true), 3)});
  report.restarts = 2;
  report.max_restarts = 2;
  report.leftovers = {"4711 sleep"};
  report.workers[1].error.message = "ValueError: bad\x1b[2J thing";
  report.workers[1].error.traceback = "Traceback (most recent call last):\n  File \"train.py\", line 7\n";
  report.workers[1].error_file = "/logs/1/error.json";
  report.workers[1].stderr_log = "/logs/1/stderr.log";
  report.workers[1].last_lines = {"not shown: the traceback says more"};
  JobSpec spec = job();
  spec.agent.output.log_dir = "/logs";
  CHECK(to_text(make_exit_report(spec, {report}, {})) ==
        "muster: error: train.py failed: rank 1 on node7: exit code 3\n"
        "  process    pid 101, local rank 1\n"
        "  error\n"
        "    | ValueError: bad\\x1b[2J thing\n"
        "  traceback\n"
        "    | Traceback (most recent call last):\n"
        "    |   File \"train.py\", line 7\n"
        "  error file /logs/1/error.json\n"
        "  stderr     /logs/1/stderr.log\n"
        "  others     failed by itself: rank 3 (killed by SIGSEGV (core dumped))\n"
        "  others     stopped by us: rank 0\n"
        "  others     stopped by us, with KILL: rank 2\n"
        "  restarts   2 of 2 used\n"
        "  leftover   left running by a worker, ended by us: 4711 sleep\n"
        "  logs       /logs\n"
        "  exit code  3\n");
}

TEST_CASE("An error without a stack is said once") {
  NodeReport report = failed_with(exited(1));
  report.workers[1].error.message = report.workers[1].error.traceback = "muster::Error: no GPU";
  const std::string text = to_text(make_exit_report(job(), {report}, {}));
  CHECK(text.find("  error\n    | muster::Error: no GPU\n") != std::string::npos);
  CHECK(text.find("traceback") == std::string::npos);
}

TEST_CASE("Text of a crash without an error file shows the last lines and what to do") {
  NodeReport report = failed_with(killed_by(SIGSEGV));
  report.workers[1].last_lines = {"epoch 3", "caf\xc3\xa9 \xe2\x80\x93 loss 0.1\r"};
  CHECK(
      to_text(make_exit_report(job(), {report}, {})) ==
      "muster: error: train.py failed: rank 1 on node7: killed by SIGSEGV\n"
      "  process    pid 101, local rank 1\n"
      "  last lines\n"
      "    | epoch 3\n"
      "    | caf\xc3\xa9 \xe2\x80\x93 loss 0.1\\x0d\n"
      "  others     stopped by us: rank 0\n"
      "  exit code  139\n"
      "  next       let it leave a core file (ulimit -c unlimited), or set PYTHONFAULTHANDLER=1 for a Python "
      "traceback\n");
}

TEST_CASE("Text of a program that could not be started") {
  NodeReport report = node(NodeOutcome::failed, {worker(0, WorkerOutcome::not_started, exited(126), 0),
                                                 worker(1, WorkerOutcome::not_started, exited(126), 0)});
  report.workers[0].start_error = "Exec format error";
  CHECK(to_text(make_exit_report(job(), {report}, {})) ==
        "muster: error: train.py failed: rank 0 on node7: could not be started: Exec format error\n"
        "  others     not started: rank 1\n"
        "  exit code  126\n");
}

TEST_CASE("Text of an interrupted job and of one that took too long") {
  const NodeReport report = node(
      NodeOutcome::stopped, {worker(0, kStopped, killed_by(SIGTERM), 1), worker(1, kStopped, exited(0), 2),
                             worker(2, kSucceeded, exited(0), 3), worker(3, kFailed, exited(9), 4)});
  CHECK(to_text(make_exit_report(job(), {report}, {JobEnd::Cause::interrupted, SIGINT, ""})) ==
        "muster: train.py stopped: interrupted by SIGINT\n"
        "  failed     rank 3 on node7: exit code 9, pid 103, local rank 3\n"
        "  others     stopped by us: ranks 0, 1\n"
        "  others     succeeded: rank 2\n"
        "  exit code  130\n");
  JobEnd asked{JobEnd::Cause::interrupted, SIGTERM, ""};
  asked.by = "'muster kill' (uid 0, process 7)";
  CHECK(contains(to_text(make_exit_report(job(), {report}, asked)),
                 "muster: train.py stopped: interrupted by SIGTERM from 'muster kill' (uid 0, process 7)\n"));
  JobSpec spec = job();
  spec.deadline = std::chrono::milliseconds(1500);
  const std::string text = to_text(make_exit_report(spec, {}, {JobEnd::Cause::deadline, 0, ""}));
  CHECK(contains(text, "muster: train.py stopped: not finished after 1.5 s (--timeout)\n"));
  CHECK(contains(text, "  exit code  124\n"));
}

TEST_CASE("The second line says why a job stood still that was ended or has failed") {
  NodeReport report = node(NodeOutcome::stopped, {worker(0, kStopped, killed_by(SIGTERM), 1)});
  report.hang = {muster::rendezvous::HangLevel::is_hung, "rank 0 on node7 is hung: \033[1m", 61'200, -1};
  CHECK(to_text(make_exit_report(job(), {report}, {JobEnd::Cause::interrupted, SIGINT, ""})) ==
        "muster: train.py stopped: interrupted by SIGINT\n"
        "  hang       rank 0 on node7 is hung: \\x1b[1m (said 1 min 1 s before the end)\n"
        "  others     stopped by us: rank 0\n"
        "  exit code  130\n");
  const ExitReport late = make_exit_report(job(), {report}, {JobEnd::Cause::deadline, 0, ""});
  CHECK_THAT(to_text(late), Contains("(--timeout)\n  hang       rank 0 on node7 is hung"));
  CHECK_THAT(late.advice, Contains("see why the job stood still"));
  // That of an earlier round has nothing to do with the end.
  NodeReport failed = node(NodeOutcome::failed, {worker(1, kFailed, exited(1), 1)});
  failed.round = 1;
  failed.hang = {muster::rendezvous::HangLevel::may_be, "rank 1 may be hung", 9000, 500};
  CHECK_THAT(to_text(make_exit_report(job(), {report, failed}, {})),
             Contains("exit code 1\n  hang       rank 1 may be hung (said 9.0 s before the end, and it moved "
                      "again 0.5 s before it)\n"));
  report.outcome = NodeOutcome::succeeded;
  report.workers = {worker(0, kSucceeded, exited(0), 1)};
  CHECK(make_exit_report(job(), {report}, {}).hang.text.empty());
}

TEST_CASE("Text of our own failure does not blame the program") {
  const std::string text = to_text(
      make_exit_report(job(), {}, {JobEnd::Cause::launcher_error, 0, "the agent was killed by SIGKILL"}));
  CHECK(text ==
        "muster: error: train.py stopped because muster failed: the agent was killed by SIGKILL\n"
        "  exit code  125\n");
}

TEST_CASE("The report says which rank waited for which, and what the culprit did last") {
  NodeReport report = node(NodeOutcome::failed,
                           {worker(0, kFailed, exited(1), 1), worker(1, kStopped, killed_by(SIGTERM), 2)});
  report.calls = {"rank 1 never entered barrier #3"};
  report.workers[1].call.text = "in no call";
  report.workers[1].call.recent = {"world: barrier #1, 1.0 ms", "world: barrier #2, \033[1m"};
  CHECK(contains(to_text(make_exit_report(job(), {report}, {})),
                 "  process    pid 100, local rank 0\n"
                 "  calls      rank 1 never entered barrier #3\n"
                 "  last calls of rank 1 (in no call)\n"
                 "    | world: barrier #1, 1.0 ms\n"
                 "    | world: barrier #2, \\x1b[1m\n"
                 "  others     stopped by us: rank 1\n"));
}

TEST_CASE("Long quotes are cut at the front and many failures are counted") {
  NodeReport report = node(NodeOutcome::failed, {});
  for (int rank = 0; rank < 20; ++rank) report.workers.push_back(worker(rank, kFailed, exited(1), rank + 1));
  for (int line = 0; line < 100; ++line)
    report.workers[0].last_lines.push_back("line " + std::to_string(line));
  const std::string text = to_text(make_exit_report(job(), {report}, {}));
  CHECK(contains(text, "  last lines (60 earlier lines left out)\n    | line 60\n"));
  CHECK(contains(text, "    | line 99\n"));
  CHECK(contains(text, "rank 8 (exit code 1); and 11 more\n"));
}

TEST_CASE("A worker that a watchdog timer ended is named with the timer, and not with the memory") {
  NodeReport reported = failed_with(killed_by(SIGKILL));
  reported.workers[1].watchdog = "the watchdog timer 'epoch' of rank 1 expired after 60.0 s";
  const ExitReport report = make_exit_report(job(), {reported}, {});
  CHECK(report.exit_code == 137);
  CHECK(contains(report.cause,
                 ": killed by SIGKILL: the watchdog timer 'epoch' of rank 1 expired after 60.0 s"));
  CHECK(contains(report.advice, "expires(after=...)"));
  CHECK(contains(to_json(report), "\"watchdog\": \"the watchdog timer 'epoch' of rank 1"));
  CHECK_FALSE(contains(to_text(report), "out-of-memory"));
}

TEST_CASE("A failure on a host where something is wrong says so, and what to do about that") {
  using muster::agent::HostCauseKind;
  NodeReport failed = failed_with(killed_by(SIGBUS));
  failed.host_causes = {
      {HostCauseKind::throttled, "processes are throttled", "in 41 % of the time"},
      {HostCauseKind::full_disk, "the file system /dev/shm is full", "0 B of 64 MiB are free"}};
  failed.slow = "rank 0 on node7 is slow";
  const ExitReport report = make_exit_report(job(), {failed}, {});
  CHECK_THAT(to_text(report),
             Contains("killed by SIGBUS\n"
                      "  host       node7: processes are throttled (in 41 % of the time)\n"
                      "  host       node7: the file system /dev/shm is full (0 B of 64 MiB are free)\n"
                      "  slow       rank 0 on node7 is slow\n"));
  CHECK(report.advice ==
        "the file system /dev/shm is full on node7: make room there if the program writes to it");
  CHECK_THAT(to_json(report), Contains("\"slow\": \"rank 0 on node7 is slow\""));
  CHECK_THAT(to_json(report), Contains("\"kind\": \"full_disk\""));
  failed.host_causes = {{HostCauseKind::gpu_error, "GPU 3 had Xid 79", "1 s ago"}};
  CHECK_THAT(make_exit_report(job(), {failed}, {}).advice,
             Contains("GPU 3 had Xid 79 on node7: see 'dmesg'"));
  // What explains the end of a worker by itself stays the advice.
  failed.workers[1].cpu_limit_s = 60;
  CHECK_THAT(make_exit_report(job(), {failed}, {}).advice, Contains("of CPU time"));
}

}  // namespace exit_report_test
