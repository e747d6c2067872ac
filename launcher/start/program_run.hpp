// SPDX-License-Identifier: Apache-2.0
// Runs programs to their end and keeps what they print.
#pragma once

#include "launcher/start/started_process.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace muster::launcher {

struct ProgramEnd {
  std::string out;
  std::string errors;
  /// Whether it was killed because its time was over.
  bool timed_out = false;
  /// How it ended: by this signal if that is not 0, else with this exit code.
  int signal = 0;
  int exit_code = 0;
};

/// Most bytes that are kept of each stream; what follows is read and dropped.
inline constexpr std::size_t kProgramOutputMax = std::size_t{256} << 10;

/// Reads what the programs print, side by side, until each has ended or `at_most` is over: then those that
/// are left are killed with their process groups. Their stdin is closed first. One that cannot be killed (it
/// waits for a dead disk) is left behind after a second. The ends come in the order of the programs. Throws
/// std::system_error if poll() fails.
std::vector<ProgramEnd> run_to_ends(std::vector<StartedProcess> programs, std::chrono::milliseconds at_most);

}  // namespace muster::launcher
