// SPDX-License-Identifier: Apache-2.0
// Reads the stacks of machine code of several processes, without anybody waiting for it.
#pragma once

#include "agent/stacks/core/process_stacks.hpp"
#include "agent/stacks/process_memory.hpp"

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace muster::agent {

/// A thread of its own reads, which is left behind where a file on a dead server holds it. Used from one
/// thread.
class NativeLook {
 public:
  struct Process {
    pid_t pid = 0;
    /// ProcessStat::start_time: with the pid it names the process.
    std::uint64_t started = 0;
  };

  /// Begins to read the processes, one after the other, until the deadline at the latest. Returns false if an
  /// earlier look has not ended, or if this host has no thread for it.
  bool begin(std::vector<Process> processes, StackDeadline deadline);

  /// Whether the look has ended, or its deadline has passed.
  bool is_over() const;

  /// What was found out so far, by pid. A process that was not reached has an error that says so.
  std::map<pid_t, NativeStacks> found() const;

 private:
  struct Look;

  /// Shared with the thread that reads, which may outlive this object.
  std::shared_ptr<Look> look_;
};

}  // namespace muster::agent
