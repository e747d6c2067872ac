// SPDX-License-Identifier: Apache-2.0
// Forms a round: it waits, gives the last call, and is complete. Pure.
#pragma once

#include "rendezvous/protocol/job_limits.hpp"
#include "rendezvous/protocol/message.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace muster::rendezvous {

/// A node's place in a completed round.
struct Seat {
  NodeName node;
  int first_rank = 0;
  int workers = 0;
  Join request;
};

/// A round while it forms. Places are given in the order of the wanted node ranks, if every node wants one;
/// else in the order of the previous round's places, then in the order of joining, so a node keeps its rank
/// as long as the nodes before it stay. When there are more nodes than places, those of the previous round go
/// first.
class Round {
 public:
  enum class Phase { waiting, last_call, complete, timed_out };

  /// The state of the round before: no round may complete while a worker of that round may live, and no
  /// timeout runs while that round is in good health.
  enum class Previous { running, draining, gone };

  /// `only_expected`: whether only expected nodes can come; a last call then ends once none of them is
  /// missing.
  Round(RoundNumber number, JobLimits limits, bool only_expected = false)
      : number_(number), limits_(limits), only_expected_(only_expected) {}

  RoundNumber number() const { return number_; }

  int joined() const { return static_cast<int>(requests_.size()); }

  /// The number of workers of all nodes that have joined.
  int workers() const { return workers_; }

  bool has(const NodeName& node) const { return requests_.count(node) > 0; }

  /// Adds a node. Joining again replaces its request and keeps its place in the queue.
  void join(const NodeName& node, Join request);
  /// The node that has joined and wants that node rank; null: none.
  const NodeName* holder_of(int node_rank) const;

  /// Takes out a node that is gone or has been refused.
  void withdraw(const NodeName& node);

  /// Remembers that `nodes` had these places in the round before.
  void remember_order(const std::vector<NodeName>& nodes);
  /// Tells that this node will come (it is alive and was in the previous round, or is being started): even
  /// with max_nodes the round waits for it, until the last call ends. `place` orders the names in texts.
  void expect(const NodeName& node, std::size_t place);

  /// Expects the node at its old place.
  void expect(const NodeName& node) { expect(node, old_place(node)); }

  bool expects(const NodeName& node) const { return expected_.count(node) > 0; }

  void expect_no_more(const NodeName& node);

  /// Keeps the round from completing before `delay` has passed since `now`. Nodes may join meanwhile; the
  /// join timeout runs afterwards, the last call at once.
  void hold(TimePoint now, Milliseconds delay);

  /// Applies the rules at `now`. After `complete` the caller calls take_seats(); after `timed_out` no node
  /// gets a place, and status() says who is missing.
  Phase advance(TimePoint now, Previous previous);

  /// The time when advance() may give another answer though nobody has come or gone.
  std::optional<TimePoint> deadline() const;

  /// The places of the completed round, at most max_nodes; nodes that found no place stay joined. The caller
  /// calls restart() next.
  std::vector<Seat> take_seats();
  /// Begins anew as round `number` with the nodes that are still joined; no node is expected and no delay
  /// holds the round.
  void restart(RoundNumber number);
  /// All nodes that have joined, in the order of joining.
  std::vector<NodeName> candidates() const;

  /// Tells what is known of a node that is waited for: "ssh: connection refused".
  using Remark = std::function<std::string(const NodeName&)>;

  /// The status with its text: "2 of 3 nodes joined; waiting for 1 more: n2 (started 4 s ago)".
  Status status(Previous previous, const Remark& remark = {}) const;

 private:
  struct Request {
    std::uint64_t order;
    Join join;
  };

  std::size_t old_place(const NodeName& node) const;

  RoundNumber number_;
  JobLimits limits_;
  bool only_expected_;
  Phase phase_ = Phase::waiting;
  std::unordered_map<NodeName, Request> requests_;
  std::unordered_map<NodeName, std::size_t> old_place_;
  /// The expected nodes with their places in texts, and the places with their nodes.
  std::unordered_map<NodeName, std::size_t> expected_;
  std::set<std::pair<std::size_t, NodeName>> expected_order_;
  std::unordered_map<int, NodeName> wanted_;
  std::uint64_t next_order_ = 0;
  int workers_ = 0;
  /// Whether the round waits for no more nodes, but only for the end of the previous round.
  bool called_ = false;
  /// Whether the round waits only for the end of the delay.
  bool held_ = false;
  TimePoint held_until_ = TimePoint::min();
  Milliseconds delay_{0};
  std::optional<TimePoint> join_deadline_;
  std::optional<TimePoint> last_call_deadline_;
};

}  // namespace muster::rendezvous
