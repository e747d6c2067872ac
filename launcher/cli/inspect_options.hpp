// SPDX-License-Identifier: Apache-2.0
// Reads the command lines of `muster ps`, `muster status`, `muster stacks` and `muster clean`.
#pragma once

#include "launcher/core/node_plan.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

/// The command line of a command that looks at jobs; meanings as in its help.
struct InspectOptions {
  /// Which job; empty: the only one.
  std::string job;
  /// --rank, in ascending order; empty: all ranks.
  std::vector<int> ranks;
  /// --watch: the time between two looks.
  std::optional<std::chrono::milliseconds> watch{};
  bool helpers = false;
  /// Of `stacks`: --native, the stacks of machine code, too.
  bool native = false;
  /// Of `ps`: those that have ended, too.
  bool all = false;
  /// Of `ps`: -H, the hosts that are asked, and how they are reached; empty: this one.
  std::string hosts;
  RemoteOptions remote{};
  bool json = false;
  bool help = false;
};

/// Reads what stands behind `command`. Throws UsageError. If `help` is set, only that field means anything.
InspectOptions parse_inspect_options(const std::string& command, const std::vector<std::string>& arguments);

/// Returns the text of `muster COMMAND --help`.
std::string inspect_help(const std::string& command);

/// Reads the value of --rank, "0,2,8-11", into ascending numbers. Throws UsageError.
std::vector<int> parse_ranks(std::string_view text);

/// What a help says of JOB.
extern const char* const kJobHelp;

}  // namespace muster::launcher
