// SPDX-License-Identifier: Apache-2.0
// Knows who is in the round that has places, from its completion until no worker of it can be alive. Pure.
#pragma once

#include "rendezvous/core/round.hpp"
#include "rendezvous/protocol/message.hpp"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace muster::rendezvous {

/// A round after it was formed: its store opens, its workers run, it is over and its nodes leave. The
/// coordinator decides; this remembers.
class RunningRound {
 public:
  enum class Stage { opening, running, over };

  /// All nodes of `seats` may have live workers from now on.
  RunningRound(RoundNumber number, std::vector<Seat> seats);

  RoundNumber number() const { return number_; }

  bool opening() const { return stage_ == Stage::opening; }

  bool running() const { return stage_ == Stage::running; }

  bool over() const { return stage_ == Stage::over; }

  const std::vector<Seat>& seats() const { return seats_; }

  /// Whether the node may have live workers.
  bool has(const NodeName& node) const { return present_.count(node) > 0; }

  /// Whether this rank is one of the node's.
  bool has(const NodeName& node, int rank) const;

  /// The place of the node; null if it has none, or has departed.
  const Seat* seat_of(const NodeName& node) const;

  int world_size() const { return seats_.back().first_rank + seats_.back().workers; }

  /// Whether no node has left.
  bool complete() const { return present_.size() == seats_.size(); }

  bool deserted() const { return present_.empty(); }

  /// The nodes that may have live workers, in the order of their places.
  std::vector<NodeName> present() const;

  /// Begins to run, with its store at `endpoint`. Returns the results of the nodes in the order of their
  /// places.
  std::vector<RoundResult> begin(const Endpoint& endpoint, int restarts, TimePoint now);

  /// The time since the nodes got their places.
  Milliseconds lasted(TimePoint now) const { return std::chrono::duration_cast<Milliseconds>(now - began_); }

  /// Ends the round; every node is told `end`.
  void end(RoundEnd end);

  /// Ends the round because the job is over, which is what its nodes are told.
  void close();

  /// The end of the round as every node was told it.
  const RoundEnd& told() const { return told_; }

  /// Whether the round can still be a success. The nodes decide that by what they report when they leave, so
  /// a round that is ended for a newcomer's sake when its nodes have just finished is still a success.
  bool may_succeed() const { return may_succeed_; }

  /// Notes that the round is no success. Returns the nodes that had succeeded and waited for how the others
  /// end, in the order of their places: they wait no more.
  std::vector<NodeName> fall_short();

  /// Notes that no worker of the round can be alive on the node any more.
  void depart(const NodeName& node) { present_.erase(node); }

  /// Notes that the node has left with success and waits for how the others end, or waits no more.
  void wait(const NodeName& node) { waiting_.insert(node); }

  void wait_no_more(const NodeName& node) { waiting_.erase(node); }

  /// The text "round 2 runs on 3 nodes: h0, h1, h2".
  std::string text() const;

 private:
  RoundNumber number_;
  Stage stage_ = Stage::opening;
  TimePoint began_{};
  std::vector<Seat> seats_;
  /// The nodes that have not departed, with their places in `seats_`: nodes ask for theirs one by one.
  std::unordered_map<NodeName, std::size_t> present_;
  std::unordered_set<NodeName> waiting_;
  bool may_succeed_ = true;
  RoundEnd told_;
};

}  // namespace muster::rendezvous
