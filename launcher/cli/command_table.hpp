// SPDX-License-Identifier: Apache-2.0
// Every command of muster, once: the usage text, completion and what is said of a mistyped one read this
// table. Pure.
#pragma once

#include "launcher/core/launch_error.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

struct Command {
  std::string_view name;
  std::string_view help;
  /// Whether people type it: completion and messages name only such commands.
  bool for_people = true;
  /// Whether a job may be named behind it.
  bool takes_job = false;
  /// Its flags with their dashes, apart by spaces; those of `run` are in the table of flags.
  std::string_view flags = "--help";
};

std::span<const Command> command_table();

/// Returns the text of 'muster --help'.
std::string usage_text();

/// Returns what is wrong with a command line (not empty) whose first word is no command, and what was
/// probably meant.
UsageError unknown_command(const std::vector<std::string>& arguments);

}  // namespace muster::launcher
