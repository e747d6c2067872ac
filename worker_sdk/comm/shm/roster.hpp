// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/shm/layout.hpp"
#include "worker_sdk/comm/shm/peer_watch.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster::shm {

/// Who the ranks of a group are, what became of them, and how to say it. One thread at a time.
class Roster {
 public:
  Roster(Layout layout, int ranks);

  /// "rank 3 (process 4711)".
  std::string name_of(int peer) const;

  /// Whether its process has ended.
  bool is_dead(int peer);

  /// What a rank does that the others wait for: ", which is stopped (...)", or nothing that is known.
  std::string state_of(int peer) const;
  /// The same in a collective, which is the `turn`-th of the group: ", which never entered it (the last that
  /// it completed is call 11: barrier)". `entered`: that rank is in it, too.
  std::string state_of(int peer, std::uint64_t turn, const Call& call, bool entered) const;

 private:
  bool is_visible(int peer) const;

  Layout layout_;
  PeerWatch watch_;
  std::uint64_t pid_namespace_;
};

/// "3 ranks wait: 0, 1, 4".
std::string waiting_text(const std::vector<int>& ranks);

}  // namespace muster::shm
