// SPDX-License-Identifier: Apache-2.0
// Finds out whether a process was ended for want of memory, from what the kernel had counted before and
// after.
#pragma once

#include "agent/core/exit_status.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::agent {

/// What the kernel has counted in one control group.
struct MemoryCounts {
  /// The group's name as /proc/PID/cgroup has it.
  std::string group;
  /// Allocations that the group's own limit refused, whether or not a process was ended for that.
  std::uint64_t refusals = 0;
  /// The limit in bytes; 0: none.
  std::uint64_t limit = 0;
  /// Most bytes that the group ever had; 0: not known.
  std::uint64_t peak = 0;
  /// Whether the group is below the agent's.
  bool below = false;
};

struct MemorySnapshot {
  /// Groups below the agent's, its own, then those above it.
  std::vector<MemoryCounts> groups;
  /// Processes that were ended for memory in the agent's group or below.
  std::uint64_t kills = 0;
  /// Those of `kills` that were in the agent's own group. A group below may be that of a worker which went
  /// there, or of a program that has nothing to do with the job.
  std::uint64_t own_kills = 0;
  /// Whether the kernel tells `kills`.
  bool counts_kills = false;
  /// Processes that were ended for memory on the whole host, other containers included.
  std::uint64_t host_kills = 0;
  bool counts_host_kills = false;
};

/// What the kernel has ended for memory between two looks.
struct MemoryEnd {
  enum class Certainty {
    unknown,  ///< the kernel does not tell
    nothing,  ///< no process was ended for memory
    likely,   ///< a process of this host was ended for memory; its group is not known
    certain,  ///< `kills` processes in the control group of the workers or below were
  };
  Certainty certainty = Certainty::unknown;
  /// Whether the kernel has ended processes of this host besides `kills`: a worker may have gone to another
  /// control group than ours (systemd-run --scope).
  bool elsewhere = false;
  std::uint64_t kills = 0;
  /// Those of `kills` that were in the control group of the workers itself.
  std::uint64_t own_kills = 0;
  /// "over the memory limit of 512 MiB of cgroup '/docker/4f1c' (peak 512 MiB)", "as the host had no memory
  /// left"; empty unless likely or certain.
  std::string why;
  /// The same, of `own_kills`.
  std::string own_why;
};

/// Compares two snapshots. A group that `before` does not have had counted nothing then.
MemoryEnd memory_end(const MemorySnapshot& before, const MemorySnapshot& after);

/// Returns how a process of ours ended: describe() and, if it got SIGKILL, what the kernel has ended for
/// memory while it lived. Whether this process was among those is not known, as the kernel does not name whom
/// it has ended.
std::string describe_own(const ExitStatus& status, const MemorySnapshot& before, const MemorySnapshot& after);

/// What a worker's report says of memory.
struct WorkerMemory {
  /// "over the memory limit of ...", "a process of its own was killed, over the memory limit of ..."; empty
  /// if the worker's end had nothing to do with memory, or the kernel does not tell.
  std::string why;
  /// Whether the kernel tells, and has ended no process for memory that was not known already.
  bool ruled_out = false;
};

/// Judges the ends of the workers of one round. Used from one thread.
class RoundMemory {
 public:
  /// Keeps what the kernel had counted before the first worker is started.
  void begin(MemorySnapshot before) { before_ = std::move(before); }

  const MemorySnapshot& before() const { return before_; }

  /// Judges the end of a worker that has failed, and not because we ended it. `said` are its last words, in
  /// which a program tells that a process of its own was killed; `alone` says that the node has no other
  /// worker whose process that could have been.
  WorkerMemory worker_failed(const ExitStatus& status, std::string_view said, bool alone,
                             const MemorySnapshot& now);

  /// Returns a text about processes of the workers' own control group that were ended for memory and that no
  /// worker's report tells of; empty if there is none.
  std::string note(const MemorySnapshot& now) const;

 private:
  MemorySnapshot before_;
  std::uint64_t told_ = 0;
};

/// Returns a text such as "1.5 GiB" or "512 MiB".
std::string memory_text(std::uint64_t bytes);

}  // namespace muster::agent
