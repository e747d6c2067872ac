// SPDX-License-Identifier: Apache-2.0
#include "agent/process/worker_end.hpp"

#include "catch.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster::agent;

TEST_CASE("A process that was killed is known by SIGKILL among the signals of all its threads") {
  CHECK(has_kill_pending("Name:\tx\nSigPnd:\t0\nShdPnd:\t0000000000000100\nSigBlk:\t0\n"));
  CHECK(has_kill_pending("Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000004100\n"));
  // So does a process with several threads look that exits.
  CHECK_FALSE(has_kill_pending("Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000200\n"));
  CHECK_FALSE(has_kill_pending(""));
}

TEST_CASE("A process that was killed is seen until it is reaped, one that waits or exits is not") {
  const pid_t killed = ::fork();
  if (killed == 0)
    for (;;) ::pause();
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(1);
  CHECK_FALSE(is_being_killed(killed));
  ::kill(killed, SIGKILL);
  CHECK(is_being_killed(killed));
  siginfo_t info{};
  for (const pid_t child : {killed, ended})
    ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  CHECK(is_being_killed(killed));
  CHECK_FALSE(is_being_killed(ended));
  for (const pid_t child : {killed, ended}) ::waitpid(child, nullptr, 0);
  CHECK_FALSE(is_being_killed(killed));
}
