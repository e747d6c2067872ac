// SPDX-License-Identifier: Apache-2.0
// What /proc tells of a worker and its descendants, cheaply enough to be asked every two seconds.
#pragma once

#include "agent/core/rank_health.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// Descendants of one worker that are looked at; of more the first ones found are.
inline constexpr std::size_t kHelpersMax = 32;

/// One worker, which is a child that nobody else reaps. Its files in /proc are opened once: an open file
/// belongs to the process for which it was opened, and never to another one that gets the same number. What
/// may not be read (another user's process, one that is not dumpable) stays 0 in the samples. One thread.
class WorkerEvidence {
 public:
  explicit WorkerEvidence(pid_t pid);

  /// Reads the counters; costs some tens of microseconds. nullopt once the process has ended.
  std::optional<WorkerSample> read(std::chrono::steady_clock::time_point now);

  /// Adds to the newest sample of a worker that stands still in what it waits, and looks for descendants that
  /// any of its threads has started.
  void look_closer(WorkerSample& sample);

  /// Wrappers, each waiting for the next, that are looked through to find the program.
  static constexpr int kWrappersMax = 4;

  /// The process that runs the program, where this one only waits for it: a shell, `uv run`. nullopt if it
  /// runs the program itself, as Python does while it waits for a compiler.
  std::optional<pid_t> wrapped_program();

 private:
  struct Helper {
    pid_t pid = 0;
    UniqueFd stat;
    UniqueFd wait_channel;
    std::uint64_t ticks = 0;
    /// Whether it has used no CPU time between the last two readings.
    bool idle = false;
  };

  struct Child {
    pid_t pid = 0;
    pid_t parent = 0;
  };

  static void add_children(pid_t pid, bool of_all_threads, std::vector<Child>& found);
  void read_helpers();
  void find_helpers(bool of_all_threads);
  void add_helper(const Child& child);
  std::string_view read(const UniqueFd& file);

  pid_t pid_;
  UniqueFd stat_;
  UniqueFd status_;
  UniqueFd io_;
  UniqueFd wait_channel_;
  UniqueFd call_;
  std::string buffer_;
  std::uint64_t reaped_ticks_ = 0;
  /// CPU time that descendants have used since this object looks at them, in clock ticks.
  std::uint64_t helper_ticks_ = 0;
  std::vector<Helper> helpers_;
  unsigned readings_ = 0;
  /// The state at the last reading.
  char state_before_ = 'S';
};

}  // namespace muster::agent
