// SPDX-License-Identifier: Apache-2.0
// Watches the processes of other ranks.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <vector>

namespace muster::shm {

/// Tells whether other processes still exist, by pidfd if the kernel gives one. One thread at a time.
class PeerWatch {
 public:
  explicit PeerWatch(int ranks);

  /// Whether the process of `rank` has ended, a zombie included. The first call for a rank begins the watch:
  /// `start_time` is the value of start_time_of() in that process, and a process with another value is a
  /// stranger that got its number. Never true for this very process (ranks that are threads).
  bool is_gone(int rank, std::int32_t pid, std::uint64_t start_time);

 private:
  struct Peer {
    bool watched = false;
    bool gone = false;
    UniqueFd pidfd;
  };

  std::vector<Peer> peers_;
};

/// Whether a process is stopped, by a signal or a debugger.
bool is_stopped(std::int32_t pid);

}  // namespace muster::shm
