// SPDX-License-Identifier: Apache-2.0
#include "agent/process/signal_evidence.hpp"

#include "catch.hpp"

#include <sys/syscall.h>

#include <csignal>
#include <string>

using namespace muster::agent;

namespace {

std::string call(long number, const std::string& arguments) {
  return std::to_string(number) + " " + arguments + " 0x0 0x0 0x7ffd 0x7f00\n";
}

}  // namespace

TEST_CASE("What a process waits for is read from its system call") {
  const auto no_pidfd = [](int) { return 0; };
  const auto parsed = [&](const std::string& text) { return parse_child_wait(text, 7, no_pidfd); };
  using Kind = ChildWait::Kind;
  CHECK(parsed(call(SYS_wait4, "0xffffffff 0x7ffd")) == ChildWait{Kind::any, 0});
  CHECK(parsed(call(SYS_wait4, "0xffffffffffffffff 0x7ffd")) == ChildWait{Kind::any, 0});
  CHECK(parsed(call(SYS_wait4, "0x2a 0x7ffd")) == ChildWait{Kind::one, 42});
  CHECK(parsed(call(SYS_wait4, "0x0 0x7ffd")) == ChildWait{Kind::group, 7});
  CHECK(parsed(call(SYS_wait4, "0xffffffd6 0x7ffd")) == ChildWait{Kind::group, 42});
  CHECK(parsed(call(SYS_waitid, "0x0 0x0")) == ChildWait{Kind::any, 0});
  CHECK(parsed(call(SYS_waitid, "0x1 0x2a")) == ChildWait{Kind::one, 42});
  CHECK(parsed(call(SYS_waitid, "0x2 0x2a")) == ChildWait{Kind::group, 42});
  CHECK(parsed(call(SYS_waitid, "0x2 0x0")) == ChildWait{Kind::group, 7});
  CHECK(parsed(call(SYS_waitid, "0x3 0x5")) == ChildWait{});
  // As zsh waits.
  CHECK(parsed(call(SYS_rt_sigsuspend, "0x7ffd 0x8")) == ChildWait{ChildWait::Kind::any, 0});
  CHECK(parse_child_wait(call(SYS_waitid, "0x3 0x5"), 7, [](int fd) { return fd == 5 ? 42 : 0; }) ==
        ChildWait{Kind::one, 42});
  for (const char* other : {"running\n", "-1 0x7ffd 0x7f00\n", "", "0 0x3 0x4 0x5\n", "nonsense"})
    CHECK(parsed(other) == ChildWait{});
}

TEST_CASE("What a process does with signals is read from its status") {
  const auto sets = parse_signal_sets("Name:\tx\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000004200\n");
  REQUIRE(sets);
  CHECK(sets->ignores(SIGPIPE));
  CHECK_FALSE(sets->ignores(SIGUSR1));
  CHECK(sets->catches(SIGUSR1));
  CHECK(sets->catches(SIGTERM));
  CHECK_FALSE(sets->catches(SIGUSR2));
  CHECK_FALSE(parse_signal_sets("Name:\tx\nSigIgn:\t0\n"));
}
