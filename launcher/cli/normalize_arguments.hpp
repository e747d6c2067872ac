// SPDX-License-Identifier: Apache-2.0
// Applies argparse's rules for a command line, which CLI11 does not know: unique prefixes of long options,
// both spellings, and everything after the first positional belonging to the program.
#pragma once

#include "launcher/cli/flag_table.hpp"

#include <span>
#include <string>
#include <vector>

namespace muster::launcher {

struct NormalizedArguments {
  /// The flags by their full names: {"--nproc-per-node", "4", "--standalone", ...}; a flag that takes a value
  /// is followed by it.
  std::vector<std::string> flags;
  /// Whether -h, --help or a prefix of it was met; then nothing after it was read.
  bool help = false;
  std::vector<std::string> program;
};

/// Splits a command line into flags and program. Pure. Throws UsageError for an unknown or ambiguous flag, a
/// missing value, or a value given to a switch.
NormalizedArguments normalize_arguments(std::span<const Flag> table,
                                        const std::vector<std::string>& arguments);

}  // namespace muster::launcher
