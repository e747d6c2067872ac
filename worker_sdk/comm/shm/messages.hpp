// SPDX-License-Identifier: Apache-2.0
// Runs sends and receives. A sender offers its message; the receiver accepts the first offer of the tag once
// its program asks to receive it; then the bytes go through the chunks of the rings, or directly if they are
// in memory of allocate(). So a send ends when its message has been received (all but the last chunks, at
// most), and no data is kept for a receiver that does not come.
#pragma once

#include "worker_sdk/comm/group_plan.hpp"
#include "worker_sdk/comm/shm/layout.hpp"
#include "worker_sdk/comm/shm/regions.hpp"
#include "worker_sdk/comm/shm/waiter.hpp"

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace muster::shm {

/// The messages of one rank. One thread at a time.
class Messages {
 public:
  Messages(Layout layout, const GroupPlan& plan, Waiter& waiter, const Regions& regions);

  /// Runs the sends and receives of `batch`, all at once. `next` is the collective that comes after them.
  void run(std::span<const Operation> batch, const Entry& next);

 private:
  struct Sending {
    const Operation* operation = nullptr;
    std::uint32_t id = 0;
    Offer::Way way = Offer::Way::data;
    std::size_t done = 0;  ///< bytes sent so far
  };

  struct Receiving {
    const Operation* operation = nullptr;
    std::size_t done = 0;  ///< bytes received so far
  };

  /// The messages between this rank and another one.
  struct Peer {
    // The sends of this rank to the other, in order: not offered, offered, accepted and on the way.
    std::deque<Sending> queued;
    std::deque<Sending> offered;
    std::deque<Sending> flowing;
    std::uint32_t next_id = 0;
    std::uint32_t offers = 0;
    std::uint32_t seen_accepted = 0;
    std::uint32_t filled = 0;
    // The receives of this rank from the other, and the other's offers that no receive has asked for yet.
    std::deque<Receiving> wanted;
    std::deque<Offer> pending;
    Receiving active;  ///< the receive whose chunks arrive now
    std::uint32_t seen_offers = 0;
    std::uint32_t accepted = 0;
    std::uint32_t emptied = 0;

    bool is_done() const {
      return queued.empty() && offered.empty() && flowing.empty() && wanted.empty() &&
             active.operation == nullptr;
    }

    /// The operation that is waited for first; null when none is left.
    const Operation* waiting() const;
  };

  bool push(int rank, Peer& peer);
  void offer(MessageRings& rings, int rank, Peer& peer);
  bool take_accepted(MessageRings& rings, int rank, Peer& peer);
  bool fill(MessageRings& rings, int rank, Peer& peer);
  bool pull(int rank, Peer& peer);
  bool match(MessageRings& rings, int rank, Peer& peer);
  bool empty(MessageRings& rings, int rank, Peer& peer);
  void compare(int rank, const Offer& offer, const Operation& operation);
  [[noreturn]] void fail_mismatch(int rank, const Entry& next);

  Layout layout_;
  int rank_;
  std::string name_;
  std::size_t chunk_;
  Waiter& waiter_;
  const Regions& regions_;
  std::vector<Peer> peers_;
  std::vector<int> busy_;  ///< ranks with unfinished operations; a member, so that its memory is kept
};

}  // namespace muster::shm
