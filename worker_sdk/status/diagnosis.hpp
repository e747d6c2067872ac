// SPDX-License-Identifier: Apache-2.0
// From what the ranks of a host say about themselves to who waits for whom. Pure.
#pragma once

#include "worker_sdk/status/process_state.hpp"
#include "worker_sdk/status/status_reader.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::status {

/// One rank as an observer sees it.
struct RankView {
  /// In the world.
  int rank = 0;
  /// Ranks of the world.
  int world_size = 1;
  /// The process that the file names, or the worker while nobody has taken the file.
  std::int32_t pid = 0;
  ProcessState process = ProcessState::unknown;
  /// Phase unclaimed: the program has not started its world, or does not use the SDK.
  RankStatus status;
};

/// One call, or the making of one group, that some ranks are in. Ranks are those of the world.
struct Wait {
  std::uint64_t name_hash = 0;
  std::string group;
  bool joining = false;
  Call call;
  /// Ranks that are in the call, or failed in it.
  std::vector<int> waiting;
  /// Ranks that should be in the call and are not.
  std::vector<int> missing;
  /// How many more should be in it, that this observer cannot see (other hosts), or not name.
  int unseen = 0;
  /// One entry for each way in which it was called, most often one: its ranks and what they called.
  std::vector<std::pair<std::vector<int>, Call>> versions;
  /// How long the first rank has been in it; not counted on after it failed.
  std::chrono::nanoseconds longest{0};
  /// The shortest wish of those who wait; 0: nobody wants a report.
  std::chrono::milliseconds report_after{0};

  bool diverged() const { return versions.size() > 1; }
};

/// The waits of all groups, those in which nobody waits left out; at most kWaitsMax, the longest first.
std::vector<Wait> find_waits(const std::vector<RankView>& ranks, std::uint64_t now_ns);

constexpr std::size_t kWaitsMax = 16;

/// "rank 3 never entered all_reduce #12 (44.7 MB) of group 'world'; ranks 0-2 wait since 4.2 s. Rank 3
/// (process 4711) is stopped by a signal or a debugger; ..."
std::string describe(const Wait& wait, const std::vector<RankView>& ranks, std::uint64_t now_ns);

/// What one rank does: "in all_reduce #12 (4.0 kB) of group 'world' since 4.2 s".
std::string activity(const RankView& rank, std::uint64_t now_ns);

/// The one of these dead ranks that is to be named for the end of this group: the first that did not itself
/// end because it had lost another rank; null when there is none.
const RankView* find_culprit(const std::vector<const RankView*>& dead, std::uint64_t name_hash);

/// Whether the last thing that it did in this group was to lose another rank.
bool has_lost_another(const RankView& rank, std::uint64_t name_hash);

/// The group in which something happened last, a running call before a finished one; null if there is none.
const GroupStatus* current_group(const RankStatus& status);

/// "world: all_reduce #11 (4.0 kB), 1.3 ms" for each call, oldest first.
std::vector<std::string> brief(const std::vector<RecentCall>& calls, const RankStatus& status,
                               std::uint64_t now_ns);

/// {0, 1, 2, 5}: "ranks 0-2, 5"; {3}: "rank 3". Long lists are cut.
std::string name_ranks(const std::vector<int>& ranks);

/// "4.2 s", "350 ms".
std::string readable(std::chrono::nanoseconds time);

}  // namespace muster::status
