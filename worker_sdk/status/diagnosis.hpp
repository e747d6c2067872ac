// SPDX-License-Identifier: Apache-2.0
// Finds out which rank waits for which, from what the ranks of a host tell about themselves. Pure.
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
  /// The rank in the world.
  int rank = 0;
  /// The number of ranks of the world.
  int world_size = 1;
  /// The process that the file names, or the worker's process as long as no process has taken the file.
  std::int32_t pid = 0;
  ProcessState process = ProcessState::unknown;
  /// The status in the file. Phase unclaimed: the program has not started its world, or does not use the SDK.
  RankStatus status;
};

/// One call, or the making of one group, in which some ranks are. The numbers are ranks of the world.
struct Wait {
  std::uint64_t name_hash = 0;
  std::string group;
  bool joining = false;
  Call call;
  /// The ranks that are in the call, or failed in it.
  std::vector<int> waiting;
  /// The ranks that should be in the call and are not.
  std::vector<int> missing;
  /// The number of further ranks that should be in the call and that this observer cannot see (other hosts)
  /// or name.
  int unseen = 0;
  /// The different forms of the call, most often one: its ranks and what they called.
  std::vector<std::pair<std::vector<int>, Call>> versions;
  /// The time that the first rank has been in the call, up to its failure if it failed.
  std::chrono::nanoseconds longest{0};
  /// The shortest report_after of the waiting ranks; 0: none wants a report.
  std::chrono::milliseconds report_after{0};

  bool diverged() const { return versions.size() > 1; }
};

/// The waits of all groups, without groups in which no rank waits; at most kWaitsMax, the longest first.
std::vector<Wait> find_waits(const std::vector<RankView>& ranks, std::uint64_t now_ns);

constexpr std::size_t kWaitsMax = 16;

/// The text about a wait: "rank 3 never entered all_reduce #12 (44.7 MB) of group 'world'; ranks 0-2 wait
/// since 4.2 s. Rank 3 (process 4711) is stopped by a signal or a debugger; ..."
std::string describe(const Wait& wait, const std::vector<RankView>& ranks, std::uint64_t now_ns);

/// The text about what one rank does: "in all_reduce #12 (4.0 kB) of group 'world' since 4.2 s".
std::string activity(const RankView& rank, std::uint64_t now_ns);

/// The dead rank that is to be named for the end of this group: the first that did not itself end because it
/// had lost another rank; null when there is none.
const RankView* find_culprit(const std::vector<const RankView*>& dead, std::uint64_t name_hash);

/// Whether the rank's last action in this group was to lose another rank.
bool has_lost_another(const RankView& rank, std::uint64_t name_hash);

/// The group in which something happened last, a running call before a finished one; null if there is none.
const GroupStatus* current_group(const RankStatus& status);

/// The last calls for people, oldest first: "world: all_reduce #11 (4.0 kB), 1.3 ms" for each.
std::vector<std::string> brief(const std::vector<RecentCall>& calls, const RankStatus& status,
                               std::uint64_t now_ns);

/// The ranks for people: "ranks 0-2, 5" for {0, 1, 2, 5}, "rank 3" for {3}. Long lists are cut.
std::string name_ranks(const std::vector<int>& ranks);

/// A time for people: "4.2 s", "350 ms".
std::string readable(std::chrono::nanoseconds time);

}  // namespace muster::status
