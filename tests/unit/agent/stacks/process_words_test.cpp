// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/process_words.hpp"

#include "catch.hpp"

#include <sys/syscall.h>

using namespace muster;
using namespace muster::agent;

namespace {

ProcessStat process(int pid, int parent, int session, char state = 'S') {
  ProcessStat stat;
  stat.pid = pid;
  stat.parent = parent;
  stat.session = session;
  stat.state = state;
  stat.threads = 1;
  return stat;
}

std::vector<int> pids_of(const std::vector<ProcessStat>& processes) {
  std::vector<int> pids;
  for (const ProcessStat& one : processes) pids.push_back(one.pid);
  return pids;
}

}  // namespace

TEST_CASE("What the kernel says of a process is put into words") {
  const std::string futex = std::to_string(SYS_futex) + " 0x7f 0x189 0x0 0x7ffc 0x7f00\n";
  CHECK(describe_state('S', "futex_wait_queue", futex) ==
        "sleeping in the system call futex (futex_wait_queue)");
  CHECK(describe_state('D', "nfs_wait_bit_killable", std::to_string(SYS_read) + " 0x3\n") ==
        "in the kernel (D state) in the system call read (nfs_wait_bit_killable)");
  CHECK(describe_state('S', "0", "") == "sleeping");
  CHECK(describe_state('S', "", "-1 0x7ffc 0x7f00\n") == "sleeping");
  CHECK(describe_state('S', "", "running\n") == "sleeping");
  CHECK(describe_state('S', "a\x1b[2J", "99999 0x0") == "sleeping in the system call 99999");
  CHECK(describe_state('R', "0", "running\n") == "running");
  CHECK(describe_state('T', "do_signal_stop", futex) == "stopped by a signal");
  CHECK(describe_state('t', "ptrace_stop", "") == "stopped by a debugger");
  CHECK(describe_state('?', "", "") == "in an unknown state");
}

TEST_CASE("Below a worker are its descendants and what has lost its parent in its session, nearest first") {
  const std::vector<ProcessStat> all = {
      process(1, 0, 1),
      process(50, 1, 50),      // the agent
      process(103, 102, 100),  // a grandchild
      process(100, 50, 100),   // the worker
      process(102, 100, 100),  // its child
      process(104, 102, 104),  // a session of its own below the child
      process(105, 50, 100),   // lost its parent
      process(106, 105, 100),  // and its child
      process(107, 100, 100, 'Z'),
      process(200, 50, 200),  // another worker
      process(201, 200, 200),
      process(300, 1, 100),  // in a session of that number, but none of ours
  };
  CHECK(pids_of(processes_below(all, 50, 100)) == std::vector<int>{102, 105, 103, 104, 106});
  CHECK(pids_of(processes_below(all, 50, 200)) == std::vector<int>{201});
  CHECK(processes_below(all, 50, 400).empty());
  CHECK(processes_below({}, 50, 100).empty());
  // The worker's own process has ended.
  std::vector<ProcessStat> left = {process(50, 1, 50), process(105, 50, 100), process(106, 105, 100)};
  CHECK(pids_of(processes_below(left, 50, 100)) == std::vector<int>{105, 106});
}

TEST_CASE("Parents that form a circle end") {
  const std::vector<ProcessStat> all = {process(50, 1, 50), process(100, 50, 100), process(101, 102, 100),
                                        process(102, 101, 100), process(103, 103, 100)};
  CHECK(processes_below(all, 50, 100).empty());
}
