// SPDX-License-Identifier: Apache-2.0
// Processes as /proc shows them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

/// What /proc/<pid>/stat says of a process, so far as anybody here wants to know it.
struct ProcessStat {
  /// Of a text that was read for a process; 0 otherwise.
  pid_t pid = 0;
  std::string name{};
  /// R: running, S: sleeping, D: in the kernel, T or t: stopped, Z or X: dead, and others.
  char state = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  /// The kernel's number of the session's terminal; 0: none.
  unsigned long terminal = 0;
  pid_t foreground_group = 0;
  long threads = 0;
  /// The start of the process in clock ticks since boot: together with the pid it names a process for ever.
  std::uint64_t start_time = 0;

  /// Its main thread has ended; others may still run.
  bool is_zombie() const { return state == 'Z' || state == 'X'; }

  /// The others have, too: nothing of it can be killed any more.
  bool has_ended() const { return is_zombie() && threads <= 1; }
};

/// Reads the text of such a file; what is cut off stays 0. nullopt if there is no name or no state.
std::optional<ProcessStat> parse_process_stat(const std::string& text);

/// nullopt, with errno ENOENT or ESRCH, if there is no such process.
std::optional<ProcessStat> read_process_stat(pid_t pid);

/// Every process that is seen in /proc; none if that cannot be read.
std::vector<ProcessStat> all_processes();

/// Start time of a process that can still run; 0 when it is gone, a zombie or cannot be seen.
std::uint64_t start_time_of(pid_t pid);

/// Identifies the pid namespace of this process; pids of another one mean nothing here. 0 when unknown.
std::uint64_t own_pid_namespace();

}  // namespace muster
