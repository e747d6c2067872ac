// SPDX-License-Identifier: Apache-2.0
// Knows the ranks of a group for the texts of failures and reports.
#pragma once

#include "worker_sdk/comm/group_plan.hpp"
#include "worker_sdk/comm/shm/layout.hpp"
#include "worker_sdk/comm/shm/peer_watch.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster::shm {

/// Tells the state of a group's ranks in texts. One thread at a time.
class Roster {
 public:
  Roster(Layout layout, const GroupPlan& plan);

  /// The number of the rank in texts (GroupPlan::shown_ranks).
  int shown(int peer) const { return shown_[static_cast<std::size_t>(peer)]; }

  /// The name of a rank: "rank 3 (process 4711)".
  std::string name_of(int peer) const;

  /// The call for texts; its root, or the other end of a message, is named by its shown rank.
  std::string describe(Call call) const;

  /// The text about waiting ranks: "3 ranks wait: 0, 1, 4".
  std::string waiting_text(const std::vector<int>& ranks) const;

  /// Whether the process of `peer` has ended.
  bool is_dead(int peer);

  /// The reason why a rank that others wait for does not come: ", which is stopped (...)". Empty when none is
  /// known.
  std::string state_of(int peer) const;
  /// The reason why a rank does not come to a collective, which is the `turn`-th of the group: ", which never
  /// entered it (the last that it completed is call 11: barrier)". `entered`: the rank is in the collective
  /// as well.
  std::string state_of(int peer, std::uint64_t turn, const Call& call, bool entered) const;

 private:
  bool is_visible(int peer) const;

  Layout layout_;
  std::vector<int> shown_;
  PeerWatch watch_;
  std::uint64_t pid_namespace_;
};

}  // namespace muster::shm
