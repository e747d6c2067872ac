// SPDX-License-Identifier: Apache-2.0
// Reads the command line of `muster kill`.
#pragma once

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

/// The command line; meanings as in its help.
struct KillOptions {
  /// Which job; empty: the only one.
  std::string job;
  int signal = SIGTERM;
  /// --rank, in ascending order; empty: the job.
  std::vector<int> ranks;
  std::optional<std::chrono::milliseconds> grace;
  bool now = false;
  bool json = false;
  bool help = false;
};

/// Reads what stands behind `muster kill`. Throws UsageError, also for flags that contradict each other. If
/// `help` is set, only that field means anything.
KillOptions parse_kill_options(const std::vector<std::string>& arguments);

/// Returns the text of `muster kill --help`.
std::string kill_help();

}  // namespace muster::launcher
