// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/refusals.hpp"

#include "rendezvous/protocol/limits.hpp"

#include <utility>

namespace muster::rendezvous {
namespace {

/// The most lines about refused connections in kBadPeerLogInterval, for all addresses together.
constexpr int kMaxLines = 16;

}  // namespace

void Refusals::add(const SocketAddress& peer, const std::string& why) {
  const std::string text = line(peer, why);
  if (!text.empty()) say_(text);
}

std::uint64_t Refusals::count() const {
  const std::scoped_lock lock(mutex_);
  return count_;
}

std::string Refusals::line(const SocketAddress& peer, const std::string& why) {
  const std::string host = peer.host();
  const auto now = std::chrono::steady_clock::now();
  const std::scoped_lock lock(mutex_);
  ++count_;
  if (!peers_.due(host, now)) return "";
  if (now - lines_since_ >= kBadPeerLogInterval) {
    lines_since_ = now;
    lines_ = 0;
  }
  if (++lines_ > kMaxLines) return "";
  const std::size_t suppressed = peers_.take_suppressed(host);
  std::string text = "refused a connection from " + peer.text() + " to " + port_ + ": " + why;
  if (suppressed > 0) text += " (" + std::to_string(suppressed) + " more such lines left out)";
  if (lines_ == kMaxLines) text += "; of further hosts nothing is said for 10 s";
  return text;
}

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
