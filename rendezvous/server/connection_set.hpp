// SPDX-License-Identifier: Apache-2.0
// The connections of one store, and which of them owe a first message until when.
#pragma once

#include "rendezvous/server/store_connection.hpp"

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

  /// `deadline` for its first message must not be earlier than those given before.
  StoreConnection& add(UniqueFd fd, const SocketAddress& peer, TimePoint deadline);
  /// The connection's first message has come.
  void established(StoreConnection& connection);
  /// Closes it; the object stays until bury(), because events for it may still lie in the caller's hands.
  void remove(StoreConnection& connection);

  void bury() { graveyard_.clear(); }

  /// Closes all at once.
  void clear();

  /// The next one whose time is over at `now`, or null. A client of torch 1.13 opens a second connection that
  /// never says anything, and burns a core for ever if that is closed: one silent connection is kept for each
  /// that speaks the old dialect and comes from the same address.
  StoreConnection* take_overdue(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  /// The one that owes its first message longest; null if none does.
  StoreConnection* oldest_pending() const { return pending_.empty() ? nullptr : pending_.front(); }

  /// The oldest of the connections from `peer`'s host that owe their first message by `deadline` or earlier,
  /// if there are `limit` or more of them. A later `deadline` spares a burst of clients that have not had
  /// time to speak.
  StoreConnection* oldest_pending_from(const SocketAddress& peer, std::size_t limit,
                                       TimePoint deadline) const;

  /// The one with the largest `bytes_counted`; null if there is none.
  StoreConnection* heaviest();

  std::size_t pending() const { return pending_.size(); }

  std::size_t size() const { return all_.size(); }

  bool empty() const { return all_.empty(); }

  /// Connections whose wait another one's request ended since the list was last taken.
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
