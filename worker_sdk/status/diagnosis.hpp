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

/// The dead rank that is to be named for the end of this group: the first that did not itself end because it
/// had lost another rank; null when there is none.
const RankView* find_culprit(const std::vector<const RankView*>& dead, std::uint64_t name_hash);

/// Whether the rank's last action in this group was to lose another rank.
bool has_lost_another(const RankView& rank, std::uint64_t name_hash);

/// The group in which something happened last, a running call before a finished one; null if there is none.
const GroupStatus* current_group(const RankStatus& status);

}  // namespace muster::status
