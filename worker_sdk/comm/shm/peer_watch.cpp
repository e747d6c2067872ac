// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/shm/peer_watch.hpp"

#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace muster::shm {
PeerWatch::PeerWatch(int ranks) : peers_(static_cast<std::size_t>(ranks)) {}

bool PeerWatch::is_gone(int rank, std::int32_t pid, std::uint64_t start_time) {
  if (pid == getpid()) return false;
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.gone) return true;
  if (!peer.watched) {
    peer.watched = true;
    peer.pidfd = open_pidfd(pid);
    peer.gone = !peer.pidfd && errno == ESRCH;
    // Another process may have got the number before the descriptor was opened.
    peer.gone = peer.gone || (start_time != 0 && start_time_of(pid) != start_time);
    if (peer.gone) return true;
  }
  if (peer.pidfd) {
    pollfd entry{peer.pidfd.get(), POLLIN, 0};
    peer.gone = poll(&entry, 1, 0) > 0;
  } else if (start_time != 0) {
    peer.gone = start_time_of(pid) != start_time;
  }
  return peer.gone;
}

bool is_stopped(std::int32_t pid) {
  const auto stat = read_process_stat(pid);
  return stat && (stat->state == 'T' || stat->state == 't');
}

}  // namespace muster::shm
