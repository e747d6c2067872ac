// SPDX-License-Identifier: Apache-2.0
// Real children: how they start, what they see, and that a tree of them can be ended whole.
#include "agent/process/child_process.hpp"

#include "agent/process/process_tree.hpp"
#include "catch.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/pipe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <system_error>
#include <utility>

using namespace muster::agent;
using muster::test::Pipe;

namespace {

ChildSpec shell(const std::string& script) {
  ChildSpec spec;
  spec.program = "/bin/sh";
  spec.arguments = {"sh", "-c", script};
  spec.environment = {{"PATH", "/usr/bin:/bin"}};
  spec.signals = SignalState::capture();
  return spec;
}

siginfo_t wait_for(const Child& child) {
  pollfd ended{child.pidfd.get(), POLLIN, 0};
  REQUIRE(::poll(&ended, 1, 20'000) == 1);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED) == 0);
  return info;
}

std::string output_of(ChildSpec spec) {
  Pipe pipe;
  spec.stdout_fd = pipe.write.get();
  const Child child = start_child(spec);
  pipe.write.reset();
  std::string text = muster::test::read_to_end(pipe.read.get());
  wait_for(child);
  return text;
}

}  // namespace

TEST_CASE("Every exit code and every deadly signal comes back as it was") {
  for (const int code : {0, 1, 2, 9, 127, 255}) {
    const siginfo_t info = wait_for(start_child(shell("exit " + std::to_string(code))));
    CHECK(info.si_code == CLD_EXITED);
    CHECK(info.si_status == code);
  }
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGUSR1, SIGPIPE}) {
    const siginfo_t info = wait_for(start_child(shell("kill -" + std::to_string(signal) + " $$")));
    CHECK(info.si_code == CLD_KILLED);
    CHECK(info.si_status == signal);
  }
}

TEST_CASE("A worker has our limit on core dumps back, though we ourselves leave none any more") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_CORE, &before) == 0);
  rlimit some = before;
  some.rlim_cur = std::min<rlim_t>(before.rlim_max, 512 * 1024);
  REQUIRE(::setrlimit(RLIMIT_CORE, &some) == 0);
  const ChildSpec worker = shell("ulimit -S -c");  // in blocks of 512 bytes
  some.rlim_cur = 0;
  REQUIRE(::setrlimit(RLIMIT_CORE, &some) == 0);
  CHECK(output_of(worker) == std::to_string(std::min<rlim_t>(before.rlim_max, 512 * 1024) / 512) + "\n");
  ::setrlimit(RLIMIT_CORE, &before);
}

TEST_CASE("A program that cannot be executed is an error with its cause, not a child") {
  ChildSpec spec = shell("");
  const std::pair<std::string, int> rows[] = {{muster::test::absent() + "/program", 127},
                                              {"/etc/passwd", 126}};
  for (const auto& [program, exit_code] : rows) {
    spec.program = program;
    try {
      start_child(spec);
      FAIL("started");
    } catch (const std::system_error& error) {
      CHECK(start_error_exit_code(error.code().value()) == exit_code);
    }
  }
  CHECK(end_all_descendants({}, 10'000));  // the fork that failed to execute may still be on its way out
}

TEST_CASE("A child gets exactly its arguments, its environment and three descriptors") {
  ChildSpec spec = shell("printf '%s|' \"$0\" \"$@\" \"$NAME\"; ls /proc/self/fd | wc -l");
  spec.arguments.insert(spec.arguments.end(), {"zero", "a b", "", "$x\n"});
  spec.environment.emplace_back("NAME", "value=1");
  Pipe leaked;  // both ends are open here, without close-on-exec
  ::fcntl(leaked.read.get(), F_SETFD, 0);
  CHECK(output_of(spec) == "zero|a b||$x\n|value=1|4\n");  // 0, 1, 2 and the one that ls itself opened
}

TEST_CASE("A child leads a session of its own and has our signals as we were started") {
  CHECK(output_of(shell("[ $(ps -o sid= -p $$) = $$ ] && echo own")) == "own\n");
  ::signal(SIGPIPE, SIG_IGN);
  ChildSpec spec = shell("grep SigIgn /proc/self/status");
  spec.signals = SignalState();
  CHECK(output_of(spec).find("0000000000000000") != std::string::npos);
  ::signal(SIGPIPE, SIG_DFL);
}

TEST_CASE("A child dies with the process that started it") {
  become_subreaper();  // not every process 1 reaps at once
  Pipe pipe;
  const pid_t parent = ::fork();
  REQUIRE(parent >= 0);
  if (parent == 0) {
    pipe.read.reset();
    const Child child = start_child(shell("exec sleep 600"));
    (void)!::write(pipe.write.get(), &child.pid, sizeof child.pid);
    ::kill(::getpid(), SIGKILL);
  }
  pipe.write.reset();
  pid_t grandchild = 0;
  REQUIRE(::read(pipe.read.get(), &grandchild, sizeof grandchild) == static_cast<ssize_t>(sizeof grandchild));
  ::waitpid(parent, nullptr, 0);
  int status = 0;  // ours to reap since its parent ended
  REQUIRE(::waitpid(grandchild, &status, 0) == grandchild);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
}

TEST_CASE("Programs are found as execvp finds them") {
  CHECK(find_program("sh", muster::test::absent() + ":/bin:/usr/bin") == "/bin/sh");
  CHECK(find_program("./x/y", "/bin") == "./x/y");
  CHECK(find_program("no-such-program", "/bin:/usr/bin").empty());
  CHECK(find_program("passwd-not-executable", "").empty());
}

TEST_CASE("A whole tree ends: background children, sessions of their own, daemons, stopped ones") {
  become_subreaper();
  Pipe ready;
  ChildSpec spec = shell(
      "sleep 600 & setsid sh -c 'sleep 600; true' & (setsid sh -c 'trap \"\" TERM; sleep 600; true' &); "
      "sh -c 'kill -STOP $$; true' & echo r; exec sleep 600");
  spec.stdout_fd = ready.write.get();
  const Child child = start_child(spec);
  char byte = 0;
  REQUIRE(::read(ready.read.get(), &byte, 1) == 1);
  REQUIRE(descendants_of(::getpid()).size() >= 3);
  CHECK(end_all_descendants({}, 10'000));
  CHECK(descendants_of(::getpid()).empty());
  CHECK(::kill(child.pid, 0) != 0);
}

TEST_CASE("Children that are excepted live on") {
  become_subreaper();
  const Child kept = start_child(shell("exec sleep 600"));
  const Child killed = start_child(shell("exec sleep 600"));
  CHECK(end_all_descendants({kept.pid}, 10'000));
  CHECK(::kill(kept.pid, 0) == 0);
  CHECK(::kill(killed.pid, 0) != 0);
  CHECK(end_all_descendants({}, 10'000));
}

TEST_CASE("A signal does not reach a later process with the same pid") {
  const Child child = start_child(shell("exec sleep 600"));
  muster::ProcessStat info;
  info.pid = child.pid;
  info.start_time = 1;  // of some earlier process
  CHECK_FALSE(signal_process(info, SIGKILL));
  for (const muster::ProcessStat& process : descendants_of(::getpid()))
    if (process.pid == child.pid) info = process;
  CHECK(signal_process(info, SIGKILL));
  CHECK(wait_for(child).si_status == SIGKILL);
}
