// SPDX-License-Identifier: Apache-2.0
// Runs the calls of a group over messages. In every collective each rank first sends its fingerprint to each
// other rank, with small data in the same message; larger data follows once all fingerprints are equal, or is
// sent at once under a number made of the fingerprint, so that data of different calls never meets.
// Reductions go in rank order, in the same arithmetic as in shared memory: the same inputs give the same bits
// over any transport. Only the algorithms ring and tree have an order of their own, which is fixed as well.
#pragma once

#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/message/control.hpp"
#include "worker_sdk/comm/message/transport.hpp"

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::message {

class MessageGroup {
 public:
  MessageGroup(std::unique_ptr<Transport> transport, GroupInfo info);
  ~MessageGroup();

  /// Runs a batch as Backend::run() does; a batch of one `allocate` only compares the call. One thread at a
  /// time.
  void run(std::span<const Operation> batch);

  /// Tells that this rank makes no further call and waits, at most `limit`, until the others have told the
  /// same: a connection that is closed with data on the way loses the data.
  void leave(std::chrono::milliseconds limit) noexcept;

  /// Gives up the transfers under way; called after a failure, instead of leave(). False when this object
  /// must never be destroyed, because its memory is still in use.
  bool give_up();

  /// The ranks that run() waits for, "rank 1, rank 3"; "" when unknown. Any thread.
  std::string missing() const;

  Transport& transport() { return *transport_; }

  /// The bytes that this rank has sent. Any thread.
  Wire wire() const { return wire_.read(); }

 private:
  struct Part {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
  };

  using Give = std::function<Part(int peer)>;
  using Take = std::function<std::byte*(int peer)>;
  using Transfers = std::vector<std::pair<int, std::unique_ptr<Transfer>>>;

  struct Offer {
    Control control;
    std::vector<std::byte> payload;
  };

  struct PendingSend {
    const Operation* operation;
    std::uint64_t number;
    bool accepted;
  };

  class Reduction;
  class RingGather;
  class RingReduction;
  class Tree;

  // The following functions are in message_group.cpp: fingerprints and failures.
  void collective(const Operation& operation);
  void announce(const Operation& operation, const Give& give);
  void agree(const Operation& operation);
  void release_all();
  void set_aside(int peer);
  void wait_all(Transfers& transfers, const Call& call);
  void wait_one(int peer, Transfer& transfer, const Call& call);
  void wait_first(Transfers& transfers, const Call& call);
  void next_message(int peer, const Call& call);
  std::vector<int> absent_beside(int peer);
  std::vector<int> peers() const;
  [[noreturn]] void differ(int a, const Call& call_a, int b, const Call& call_b);
  [[noreturn]] void late(const Call& call, const std::vector<int>& absent, bool all_known);

  const std::string& name_of(int peer) const { return info_.peers[static_cast<std::size_t>(peer)]; }

  // The following functions are in collectives.cpp.
  void alone(const Operation& operation);
  void exchange(const Operation& operation, const Give& give, const Take& take);
  void broadcast(const Operation& operation);
  void broadcast_cut(const Operation& operation);
  void all_gather(const Operation& operation);
  void gather(const Operation& operation);
  void scatter(const Operation& operation);
  void all_to_all(const Operation& operation);
  const std::byte* settled_input(const Operation& operation, std::size_t in_bytes, std::size_t out_bytes,
                                 bool in_place);

  // The following functions are in reductions.cpp.
  void reduce_all(const Operation& operation);
  void reduce_inline(const Operation& operation);
  void reduce_cut(const Operation& operation);

  // The following functions are in ring.cpp.
  void reduce_ring(const Operation& operation);
  void all_gather_ring(const Operation& operation, const std::vector<std::size_t>& begins);

  // The following function is in tree.cpp.
  void run_tree(const Operation& operation);

  // The following functions are in sends_and_receives.cpp.
  void begin_sends(std::span<const Operation> batch);
  void finish_sends_and_receives(std::span<const Operation> batch);
  void receive_offer(const Operation& operation, Transfers& transfers);
  Offer next_offer(const Operation& operation);

  Key data_key(const Call& call, std::uint64_t phase) const;
  void receive(Transfers& transfers, int peer, Key key, std::byte* data, std::size_t bytes);
  void send(Transfers& transfers, int peer, Key key, const std::byte* data, std::size_t bytes);
  std::byte* staging(std::size_t bytes);

  std::unique_ptr<Transport> transport_;
  GroupInfo info_;
  WireCount wire_;
  ControlStreams control_;
  Clock::time_point deadline_;
  std::uint64_t round_ = 0;  ///< number of collectives so far
  std::vector<std::byte> staging_;
  std::vector<std::byte> settled_;
  std::vector<std::deque<Offer>> offers_;         ///< offers that were not received yet, one entry per peer
  std::vector<std::uint64_t> sent_;               ///< number of offers to each peer
  std::vector<PendingSend> pending_;              ///< sends of the present batch
  std::unique_ptr<std::atomic<bool>[]> awaited_;  ///< whether this rank waits for a peer, one entry per peer
};

}  // namespace muster::message
