// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store/connection_set.hpp"

#include <algorithm>
#include <iterator>

namespace muster::rendezvous {

StoreConnection& ConnectionSet::add(UniqueFd fd, const SocketAddress& peer, TimePoint deadline) {
  StoreConnection& connection = all_.emplace_back(std::move(fd), peer, store_, budget_, woken_);
  connection.self = std::prev(all_.end());
  connection.deadline = deadline;
  connection.pending = pending_.insert(pending_.end(), &connection);
  connection.is_pending = true;
  return connection;
}

void ConnectionSet::established(StoreConnection& connection) {
  leave_pending(connection);
  if (connection.session().dialect() != c10d::Dialect::legacy || connection.counted_legacy) return;
  LegacyHost& host = legacy_[connection.peer().host()];
  ++host.speaking;
  connection.counted_legacy = true;
  if (connection.kept_silent) --host.silent;
  connection.kept_silent = false;
}

StoreConnection* ConnectionSet::oldest_pending_from(const SocketAddress& peer, std::size_t limit,
                                                    TimePoint deadline) const {
  StoreConnection* oldest = nullptr;
  std::size_t count = 0;
  for (StoreConnection* connection : pending_) {
    if (connection->deadline > deadline) break;  // the connections are in the order of their age
    if (connection->peer().bytes() != peer.bytes()) continue;
    if (++count == 1) oldest = connection;
  }
  return count >= limit ? oldest : nullptr;
}

StoreConnection* ConnectionSet::heaviest() {
  const auto lighter = [](const StoreConnection& one, const StoreConnection& other) {
    return one.bytes_counted < other.bytes_counted;
  };
  const auto found = std::max_element(all_.begin(), all_.end(), lighter);
  return found == all_.end() ? nullptr : &*found;
}

void ConnectionSet::remove(StoreConnection& connection) {
  leave_pending(connection);
  connection.dead = true;
  std::erase(woken_, &connection);
  if (connection.counted_legacy || connection.kept_silent) {
    const auto host = legacy_.find(connection.peer().host());
    if (connection.counted_legacy) --host->second.speaking;
    if (connection.kept_silent) --host->second.silent;
    if (host->second.speaking == 0 && host->second.silent == 0) legacy_.erase(host);
  }
  connection.hang_up();
  graveyard_.splice(graveyard_.end(), all_, connection.self);
}

void ConnectionSet::clear() {
  woken_.clear();
  pending_.clear();
  legacy_.clear();
  graveyard_.clear();
  all_.clear();
}

StoreConnection* ConnectionSet::take_overdue(TimePoint now) {
  while (!pending_.empty() && pending_.front()->deadline <= now) {
    StoreConnection& connection = *pending_.front();
    const auto host = connection.silent() ? legacy_.find(connection.peer().host()) : legacy_.end();
    if (host == legacy_.end() || host->second.silent >= host->second.speaking) return &connection;
    ++host->second.silent;
    connection.kept_silent = true;
    leave_pending(connection);
  }
  return nullptr;
}

std::optional<ConnectionSet::TimePoint> ConnectionSet::next_deadline() const {
  if (pending_.empty()) return std::nullopt;
  return pending_.front()->deadline;
}

void ConnectionSet::leave_pending(StoreConnection& connection) {
  if (!connection.is_pending) return;
  pending_.erase(connection.pending);
  connection.is_pending = false;
}

}  // namespace muster::rendezvous
