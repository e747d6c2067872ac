// SPDX-License-Identifier: Apache-2.0
// Reads the command lines of `muster ps`, `muster status` and `muster stacks`.
#pragma once

#include <string>
#include <vector>

namespace muster::launcher {

/// The command line of a command that looks at jobs; meanings as in its help.
struct InspectOptions {
  /// Which job; empty: the only one.
  std::string job;
  /// --rank, in ascending order; empty: all ranks.
  std::vector<int> ranks;
  bool helpers = false;
  bool json = false;
  bool help = false;
};

/// Reads what stands behind `command`. Throws UsageError. If `help` is set, only that field means anything.
InspectOptions parse_inspect_options(const std::string& command, const std::vector<std::string>& arguments);

/// Returns the text of `muster COMMAND --help`.
std::string inspect_help(const std::string& command);

}  // namespace muster::launcher
