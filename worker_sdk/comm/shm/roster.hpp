// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/comm/shm/layout.hpp"
#include "worker_sdk/comm/shm/peer_watch.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster::shm {

/// Knows the ranks of a group and what became of them, and says so in texts. One thread at a time.
class Roster {
 public:
  Roster(Layout layout, const GroupPlan& plan);

  /// What texts call the rank (GroupPlan::shown_ranks).
  int shown(int peer) const { return shown_[static_cast<std::size_t>(peer)]; }

  /// "rank 3 (process 4711)".
  std::string name_of(int peer) const;

  /// The call as texts say it: its root, or the other end of a message, is named by its shown rank.
  std::string describe(Call call) const;

  /// "3 ranks wait: 0, 1, 4".
  std::string waiting_text(const std::vector<int>& ranks) const;

  /// Whether its process has ended.
  bool is_dead(int peer);

  /// Says why a rank that others wait for does not come: ", which is stopped (...)". Empty when nothing is
  /// known.
  std::string state_of(int peer) const;
  /// Says the same of a rank in a collective, which is the `turn`-th of the group: ", which never entered it
  /// (the last that it completed is call 11: barrier)". `entered`: that rank is in the collective, too.
  std::string state_of(int peer, std::uint64_t turn, const Call& call, bool entered) const;

 private:
  bool is_visible(int peer) const;

  Layout layout_;
  std::vector<int> shown_;
  PeerWatch watch_;
  std::uint64_t pid_namespace_;
};

}  // namespace muster::shm
