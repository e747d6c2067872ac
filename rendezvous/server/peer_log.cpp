// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/peer_log.hpp"

#include "rendezvous/protocol/limits.hpp"

#include <utility>

namespace muster::rendezvous {

bool PeerLog::due(const std::string& host, TimePoint now) {
  if (entries_.size() >= kMaxRememberedPeers && !entries_.contains(host)) entries_.clear();
  const auto [found, is_new] = entries_.try_emplace(host, Entry{now, 0});
  Entry& entry = found->second;
  if (!is_new && now - entry.last < kBadPeerLogInterval) {
    ++entry.suppressed;
    return false;
  }
  entry.last = now;
  return true;
}

std::size_t PeerLog::take_suppressed(const std::string& host) {
  const auto found = entries_.find(host);
  return found == entries_.end() ? 0 : std::exchange(found->second.suppressed, 0);
}

}  // namespace muster::rendezvous
