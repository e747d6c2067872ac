// SPDX-License-Identifier: Apache-2.0
// Reads the command lines of `muster logs` and `muster attach`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

/// The command line; meanings as in its help.
struct LogsOptions {
  /// Which job; empty: the only one.
  std::string job;
  /// --rank, in ascending order; empty: all ranks, and our own messages.
  std::vector<int> ranks;
  std::optional<int> round;
  /// --since as given; empty: from the beginning.
  std::string since;
  /// --lines: how many lines `attach` shows before what comes.
  std::size_t lines = 100;
  bool follow = false;
  bool timestamps = false;
  bool json = false;
  bool help = false;
};

/// Reads what stands behind `command`. Throws UsageError. If `help` is set, only that field means anything.
LogsOptions parse_logs_options(const std::string& command, const std::vector<std::string>& arguments);

/// Returns the text of `muster COMMAND --help`.
std::string logs_help(const std::string& command);

}  // namespace muster::launcher
