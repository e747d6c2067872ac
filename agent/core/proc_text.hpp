// SPDX-License-Identifier: Apache-2.0
// Reads the counters in the texts that /proc shows of a process, as proc(5) describes them. Pure; whatever is
// missing or unreadable stays 0.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// Of /proc/PID/stat.
struct StatCounters {
  /// The state of the main thread: R, S, D, T, t, Z and others.
  char state = 0;
  int parent = 0;
  /// CPU time in clock ticks: that of the process's own threads, and that of the children that it has reaped,
  /// with theirs.
  std::uint64_t own_ticks = 0;
  std::uint64_t reaped_ticks = 0;
  /// The start in clock ticks since boot, which with the pid names a process for ever.
  std::uint64_t start_time = 0;
};

/// nullopt for a text without a state.
std::optional<StatCounters> parse_stat_counters(std::string_view text);

/// Of /proc/PID/status.
struct StatusCounters {
  /// Bytes in memory, now and at most.
  std::uint64_t memory = 0;
  std::uint64_t memory_peak = 0;
  /// Times at which the main thread gave its CPU away: because it waited, and because it had to.
  std::uint64_t voluntary_switches = 0;
  std::uint64_t involuntary_switches = 0;
  /// The thread that traces the process; 0: none.
  std::uint64_t tracer = 0;
};

StatusCounters parse_status_counters(std::string_view text);

/// Of /proc/PID/io, in bytes.
struct IoCounters {
  /// Those of all system calls that read and write, but for those of sockets.
  std::uint64_t read = 0;
  std::uint64_t written = 0;
  /// Those that came from disks and went to them.
  std::uint64_t disk_read = 0;
  std::uint64_t disk_written = 0;
};

IoCounters parse_io_counters(std::string_view text);

/// Of /proc/PID/syscall: the number of the system call in which the main thread waits, and the call's first
/// arguments.
struct WaitingCall {
  long number = -1;
  std::array<std::uint64_t, 3> arguments{};
};

/// nullopt if the thread runs, or waits outside of system calls.
std::optional<WaitingCall> parse_waiting_call(std::string_view text);

/// The kernel function in which a thread waits, from the text of /proc/PID/wchan; where that tells nothing
/// (empty or "0"), the innermost function of /proc/PID/stack. Empty: neither tells.
std::string kernel_function(std::string_view wait_channel, std::string_view stack);

/// The process numbers in /proc/PID/task/TID/children, at most `most`.
std::vector<int> parse_children(std::string_view text, std::size_t most);

}  // namespace muster::agent
