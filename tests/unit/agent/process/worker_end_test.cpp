// SPDX-License-Identifier: Apache-2.0
#include "agent/process/worker_end.hpp"

#include "catch.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster::agent;

TEST_CASE("A thread that will not run its program any more is known by its state, its flags or SIGKILL") {
  const std::string none = "Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000200\nSigBlk:\t0\n";
  const auto stat = [](char state, const std::string& flags) {
    return std::string("7 (a) R) ") + state + " 1 7 7 0 -1 " + flags + " 95 0 0 0 0 0 0 0 20 0 1 0 9\n";
  };
  for (const char state : {'R', 'S', 'D', 'T'}) CHECK_FALSE(thread_is_ending(stat(state, "4194560"), none));
  CHECK(thread_is_ending(stat('Z', "0"), none));
  CHECK(thread_is_ending(stat('X', "0"), none));
  CHECK(thread_is_ending(stat('R', "4194564"), none));
  CHECK(thread_is_ending(stat('D', "4194560"), "Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0\n"));
  CHECK(thread_is_ending(stat('D', "4194560"), "Name:\tx\nSigPnd:\t0\nShdPnd:\t0000000000000100\n"));
  CHECK_FALSE(thread_is_ending("", none));
  CHECK_FALSE(thread_is_ending("nonsense", ""));
}

TEST_CASE("A process that was killed is ending, one that waits is not") {
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  CHECK_FALSE(is_ending(child));
  ::kill(child, SIGKILL);
  CHECK(is_ending(child));
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  CHECK(is_ending(child));
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(is_ending(child));
}
