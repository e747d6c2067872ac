// SPDX-License-Identifier: Apache-2.0
// What the console process of a detached job does.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <chrono>

namespace muster::launcher {

/// What it reads and writes.
struct ConsoleDescriptors {
  /// What our processes and workers print on stdout and stderr.
  UniqueFd out;
  UniqueFd err;
  /// The folder of the console.
  UniqueFd folder;
  /// Readable when the launcher is gone.
  UniqueFd launcher;
};

/// Takes everything, and keeps it with a time, until nobody can print any more, or `outlives` after the
/// launcher's end. A disk that takes nothing holds up nobody: lines that find no room are counted, and the
/// count is kept when the disk takes something again. Blocks; returns once the last line is written, or the
/// disk has taken nothing for some seconds. One thread reads, another one, which this starts, writes.
void run_console(ConsoleDescriptors descriptors, std::chrono::milliseconds outlives);

}  // namespace muster::launcher
