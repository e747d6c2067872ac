// SPDX-License-Identifier: Apache-2.0
#include "agent/core/exit_status.hpp"

#include "catch.hpp"

#include <csignal>

using muster::agent::describe;
using muster::agent::ExitStatus;

TEST_CASE("An exit status maps to the shell's code") {
  CHECK(ExitStatus{ExitStatus::Kind::exited, 3}.exit_code() == 3);
  CHECK(ExitStatus{ExitStatus::Kind::signaled, SIGSEGV}.exit_code() == 139);
  CHECK(ExitStatus{}.success());
  CHECK_FALSE(ExitStatus{ExitStatus::Kind::signaled, 9}.success());
}

TEST_CASE("An exit status is said in words") {
  CHECK(describe({ExitStatus::Kind::exited, 3}) == "exit code 3");
  CHECK(describe({ExitStatus::Kind::signaled, SIGSEGV, true}) == "killed by SIGSEGV (core dumped)");
}

TEST_CASE("Signals have names, in both directions") {
  CHECK(muster::agent::signal_name(SIGTERM) == "SIGTERM");
  CHECK(muster::agent::signal_number("SIGTERM") == SIGTERM);
  CHECK(muster::agent::signal_number("usr1") == SIGUSR1);
  CHECK(muster::agent::signal_number("SIGNOPE") == 0);
}
