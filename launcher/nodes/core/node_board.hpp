// SPDX-License-Identifier: Apache-2.0
// Keeps the rules over all nodes of a job: when each gets its part, what the end of one means for the others,
// and when the job has no node left. Pure: events and the time go in, orders come out.
#pragma once

#include "launcher/core/job_end.hpp"
#include "launcher/core/node_plan.hpp"
#include "launcher/nodes/core/remote_node.hpp"
#include "rendezvous/protocol/ids.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

/// An order that says what to do with one node.
struct NodeOrder {
  RemoteNode::Action action = RemoteNode::Action::none;
  std::size_t node = 0;
  bool operator==(const NodeOrder&) const = default;
};

/// Nodes are numbers from 0; the first runs the coordinator. What concerns one node alone is told to that
/// node; what the others may have to hear of comes here, and moves the node, too.
class NodeBoard {
 public:
  using TimePoint = rendezvous::TimePoint;
  using Orders = std::vector<NodeOrder>;

  /// Time for which other starts under way may fail after the first failed one, so that the user learns of
  /// all of them.
  static constexpr rendezvous::Milliseconds kCollectFailuresFor{1500};

  /// `plans` has the names of the nodes; the job may do without all but `needed` of them; `may_restart` says
  /// that it may also when one is lost while workers run. `grace` is what workers have between the stop
  /// signal and KILL.
  NodeBoard(const std::vector<NodePlan>& plans, std::size_t needed, bool may_restart,
            rendezvous::Milliseconds grace);

  RemoteNode& node(std::size_t index) { return nodes_[index]; }

  std::vector<RemoteNode>& nodes() { return nodes_; }

  const std::vector<RemoteNode>& nodes() const { return nodes_; }

  /// Takes the hello of an agent, which has said who it is.
  Orders greeted(std::size_t node);
  /// Takes the news that the coordinator, on node 0, listens.
  Orders listening();
  Orders start_failed(std::size_t node, HostFailure failure, TimePoint now);
  /// Takes a node's report, after which what leads there has to end. False for a second one.
  bool reported(std::size_t node, TimePoint now);
  /// Takes the news that the report says that the node could not do its part. The other nodes may hear of
  /// that through us only.
  Orders gave_up(std::size_t node);
  /// Takes the end of what led to a node that has reported. With the coordinator's node the time of the
  /// others is limited: what is left of them does not know that, or is stuck.
  void ended(std::size_t node, TimePoint now);
  /// Takes the loss of a node that is gone without a report, and to which no other way leads.
  Orders lost(std::size_t node, HostFailure failure);

  /// From now on workers have this between the stop signal and KILL.
  void set_grace(rendezvous::Milliseconds grace) { grace_ = grace; }

  /// Ends the job because of a signal, a deadline, or a failure of ours.
  Orders stop();
  Orders kill();
  /// Cuts off everything that is left, at once.
  Orders cut_all();
  /// Takes the time, and returns what became due.
  Orders tick(TimePoint now);

  /// Returns when tick() is due next.
  std::optional<TimePoint> next_tick() const { return cut_at_; }

  /// Returns how long what leads to the node may outlive the last that can come from it.
  rendezvous::Milliseconds end_limit(std::size_t node) const;

  /// Whether no node is left to wait for.
  bool over() const;

  bool stopping() const { return stopping_; }

  /// Whether every node that is needed has greeted, and no other is still being started.
  bool complete() const;

  /// Returns starts that failed for good, and nodes that were lost, in the order of events.
  const std::vector<HostFailure>& failures() const { return failures_; }

  /// Returns a text about the last failure, which is spared: who is gone, that enough nodes are left, and
  /// that a round which has begun ends the job if no restart is left.
  std::string spared_text() const;
  /// Returns the second half of spared_text(): how many nodes are left.
  std::string rest_text() const;

  /// Returns a text such as "62 of 64 nodes have answered; waiting for n07 (connecting for 4 s), n31 (ssh:
  /// connection closed; try 3)". Empty once every node has answered.
  std::string waiting_text(TimePoint now) const;
  /// Returns the names of the nodes that were told to work, and have neither reported nor failed.
  std::vector<std::string> unreported() const;

 private:
  void instruct(std::size_t node, Orders& orders);
  Orders end_all(RemoteNode::Action kind);
  void cut(std::size_t node, Orders& orders);
  void fail(std::size_t node, HostFailure failure);
  bool can_do_without(std::size_t node) const;
  /// Returns whether the job can do without the node; if so, its failure is marked as spared.
  bool spare(std::size_t node);

  std::vector<RemoteNode> nodes_;
  std::size_t needed_;
  bool may_restart_;
  rendezvous::Milliseconds grace_;
  bool listening_ = false;
  bool stopping_ = false;
  std::optional<TimePoint> cut_at_;
  std::vector<HostFailure> failures_;
};

}  // namespace muster::launcher
