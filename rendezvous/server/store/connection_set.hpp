// SPDX-License-Identifier: Apache-2.0
// Keeps the connections of one store, and until when each may wait with its first message.
#pragma once

#include "rendezvous/server/store/store_connection.hpp"

#include <chrono>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

namespace muster::rendezvous {

class ConnectionSet {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  ConnectionSet(Store& store, StoreBudget& budget) : store_(store), budget_(budget) {}

  /// Adds a connection. The `deadline` for its first message must not be earlier than those of the
  /// connections before.
  StoreConnection& add(UniqueFd fd, const SocketAddress& peer, TimePoint deadline);
  /// Notes that the connection's first message has come.
  void established(StoreConnection& connection);
  /// Closes a connection; the object stays until bury(), because the caller may still hold events for it.
  void remove(StoreConnection& connection);

  void bury() { graveyard_.clear(); }

  /// Closes all connections at once.
  void clear();

  /// The next connection whose time for its first message is over at `now`, or null. A client of torch 1.13
  /// opens a second connection that never says anything, and uses a whole core for ever if that connection is
  /// closed: so one silent connection is kept for each one that speaks the old dialect and comes from the
  /// same address.
  StoreConnection* take_overdue(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  /// The connection that has waited longest with its first message; null if all have sent it.
  StoreConnection* oldest_pending() const { return pending_.empty() ? nullptr : pending_.front(); }

  /// The oldest of the connections from `peer`'s host whose first message is due by `deadline` or earlier, if
  /// there are `limit` or more of them. An earlier `deadline` leaves out a burst of clients that have not had
  /// time to speak.
  StoreConnection* oldest_pending_from(const SocketAddress& peer, std::size_t limit,
                                       TimePoint deadline) const;

  /// The connection with the largest `bytes_counted`; null if there is none.
  StoreConnection* heaviest();

  std::size_t pending() const { return pending_.size(); }

  const std::list<StoreConnection>& all() const { return all_; }

  std::size_t size() const { return all_.size(); }

  bool empty() const { return all_.empty(); }

  /// The connections whose wait was ended by a request of another connection since the list was last emptied.
  std::vector<StoreConnection*>& woken() { return woken_; }

 private:
  struct LegacyHost {
    std::size_t speaking = 0;
    std::size_t silent = 0;
  };

  void leave_pending(StoreConnection& connection);

  Store& store_;
  StoreBudget& budget_;
  std::vector<StoreConnection*> woken_;
  std::list<StoreConnection*> pending_;
  std::unordered_map<std::string, LegacyHost> legacy_;
  std::list<StoreConnection> all_;
  std::list<StoreConnection> graveyard_;
};

}  // namespace muster::rendezvous
