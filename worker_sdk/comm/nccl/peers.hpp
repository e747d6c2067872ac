// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/nccl/join.hpp"
#include "worker_sdk/comm/shm/peer_watch.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::nccl {

/// The ranks of a group: their names, and whether those on this host still live. One thread at a time.
class Peers {
 public:
  Peers(std::vector<Member> members, int rank, std::vector<int> world_ranks);

  int size() const { return static_cast<int>(members_.size()); }

  /// "rank 1 (rank 5 of the world, host b, process 4711)".
  std::string name_of(int peer) const;

  /// A rank whose process has ended, of those that can be seen from here.
  std::optional<int> find_gone();

 private:
  std::vector<Member> members_;
  std::vector<int> world_ranks_;
  std::vector<int> watched_;
  shm::PeerWatch watch_;
};

}  // namespace muster::nccl
