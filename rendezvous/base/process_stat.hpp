// SPDX-License-Identifier: Apache-2.0
// Processes as /proc shows them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

/// The fields of /proc/<pid>/stat that this program uses.
struct ProcessStat {
  /// The process of the text that was read; 0 otherwise.
  pid_t pid = 0;
  std::string name{};
  /// The state of the main thread: R running, S sleeping, D in the kernel, T or t stopped, Z or X dead, and
  /// others.
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

  /// Whether the main thread has ended; other threads may still run.
  bool is_zombie() const { return state == 'Z' || state == 'X'; }

  /// Whether all threads have ended, so that no signal can kill anything of the process any more.
  bool has_ended() const { return is_zombie() && threads <= 1; }
};

/// Reads the text of a /proc/<pid>/stat; fields that are cut off stay 0. nullopt if there is no name or no
/// state.
std::optional<ProcessStat> parse_process_stat(const std::string& text);

/// Reads the state of process `pid`. nullopt, with errno ENOENT or ESRCH, if there is no such process.
std::optional<ProcessStat> read_process_stat(pid_t pid);

/// Every process that is visible in /proc; none if /proc cannot be read.
std::vector<ProcessStat> all_processes();

/// The start time of a process that can still run; 0 when the process is gone, a zombie or cannot be seen.
std::uint64_t start_time_of(pid_t pid);

/// The kernel's id of its present start, since pids of another start mean other processes. "" when unknown.
std::string boot_id();

/// A number that identifies the pid namespace of this process, since pids of another namespace mean nothing
/// here. 0 when unknown.
std::uint64_t own_pid_namespace();

}  // namespace muster
