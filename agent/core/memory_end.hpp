// SPDX-License-Identifier: Apache-2.0
// Whether a process was ended for want of memory, from what the kernel had counted before and after.
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
  /// As /proc/PID/cgroup has it.
  std::string group;
  /// Allocations that its own limit refused, whether or not a process was ended for that.
  std::uint64_t refusals = 0;
  /// Bytes; 0: no limit.
  std::uint64_t limit = 0;
  /// Most bytes that it ever had; 0: not known.
  std::uint64_t peak = 0;
};

struct MemorySnapshot {
  /// Groups below the agent's, its own, then those above it.
  std::vector<MemoryCounts> groups;
  /// Processes that were ended for memory in the agent's group or below.
  std::uint64_t kills = 0;
  /// The kernel tells `kills`.
  bool counts_kills = false;
  /// The same for the whole host, other containers included.
  std::uint64_t host_kills = 0;
  bool counts_host_kills = false;
};

/// What became of processes between two looks.
struct MemoryEnd {
  enum class Certainty {
    unknown,  ///< the kernel does not tell
    nothing,  ///< none was ended for memory
    likely,   ///< one was on this host, whose group is not known
    certain,  ///< `kills` of them were in the control group of the workers
  };
  Certainty certainty = Certainty::unknown;
  std::uint64_t kills = 0;
  /// "over the memory limit of 512 MiB of cgroup '/docker/4f1c' (peak 512 MiB)", "as the host had no memory
  /// left"; empty unless likely or certain.
  std::string why;
};

/// A group that `before` does not have had counted nothing then.
MemoryEnd memory_end(const MemorySnapshot& before, const MemorySnapshot& after);

/// How a process of ours ended: describe(), and what the kernel has ended for memory while it lived, if it
/// got SIGKILL. Whether it was the one is not known, as the kernel does not name whom it has ended.
std::string describe_own(const ExitStatus& status, const MemorySnapshot& before, const MemorySnapshot& after);

/// What a worker's report says of memory.
struct WorkerMemory {
  /// "over the memory limit of ...", "a process of its own was killed, over the memory limit of ..."; empty
  /// if its end had nothing to do with memory, or the kernel does not tell.
  std::string why;
  /// The kernel tells, and has ended no process for memory that was not known already.
  bool ruled_out = false;
};

/// Judges the ends of the workers of one round. One thread.
class RoundMemory {
 public:
  /// Before the first worker is started.
  void begin(MemorySnapshot before) { before_ = std::move(before); }

  /// A worker has failed, and not because we ended it. `said`: its last words, in which a program tells that
  /// a process of its own was killed; `alone`: the node has no other worker whose process that could have
  /// been.
  WorkerMemory worker_failed(const ExitStatus& status, std::string_view said, bool alone,
                             const MemorySnapshot& now);

  /// About processes that were ended for memory and that no worker's report tells of; empty if there is none.
  std::string note(const MemorySnapshot& now) const;

 private:
  MemorySnapshot before_;
  std::uint64_t told_ = 0;
};

/// "1.5 GiB", "512 MiB".
std::string memory_text(std::uint64_t bytes);

}  // namespace muster::agent
