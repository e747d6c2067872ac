// SPDX-License-Identifier: Apache-2.0
// Says how a process ended, and what that means as an exit code of ours.
#pragma once

#include <csignal>
#include <string>

namespace muster::agent {

/// The end of a process: exit code or signal, never both. Value type.
struct ExitStatus {
  enum class Kind { exited, signaled };
  Kind kind = Kind::exited;
  /// Exit code 0..255, or signal number.
  int value = 0;
  bool core_dumped = false;

  bool success() const { return kind == Kind::exited && value == 0; }

  /// Returns the code itself, or 128 + signal, which is the rule of shells.
  int exit_code() const { return kind == Kind::exited ? value : 128 + value; }

  /// By SIGKILL, which no program sends to itself by accident.
  bool killed() const { return kind == Kind::signaled && value == SIGKILL; }

  bool operator==(const ExitStatus&) const = default;
};

/// Returns a text such as "exit code 3" or "killed by SIGSEGV (core dumped)".
std::string describe(const ExitStatus& status);

/// Returns "the agent process of n2 was lost (killed by SIGKILL)". `of_node` is " of n2", or empty.
inline std::string agent_lost(const std::string& of_node, const std::string& how) {
  return "the agent process" + of_node + " was lost (" + how + ")";
}

/// Returns "SIGTERM" for 15, "signal 99" for a number without a name.
std::string signal_name(int signal);

/// Returns the number for "SIGTERM" or "TERM" in any case; 0 for an unknown name.
int signal_number(const std::string& name);

}  // namespace muster::agent
