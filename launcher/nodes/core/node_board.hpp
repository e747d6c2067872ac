// SPDX-License-Identifier: Apache-2.0
// Keeps where each node of a job stands, from the first ssh to the last report, and decides what is to be
// done next. Pure: events and the time go in, orders come out.
#pragma once

#include "launcher/core/job_end.hpp"
#include "rendezvous/protocol/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

/// An order that says what to do with one node.
struct NodeOrder {
  enum class Kind {
    send_spec,         ///< send the node its key and its part of the job
    send_coordinator,  ///< tell the node where the coordinator listens
    stop,              ///< ask for an orderly end, by a message
    kill,              ///< ask for an end without grace, by a message
    cut,               ///< close the link and end the process that leads there: the agent ends by itself
  };
  Kind kind = Kind::cut;
  std::size_t node = 0;
  bool operator==(const NodeOrder&) const = default;
};

/// Nodes are numbers from 0; the first runs the coordinator. The order of events of one node is: starting,
/// (retrying, starting)*, greeted, [listening], reported, ended; start_failed before greeted, or lost before
/// reported, may come instead, and is the last one.
class NodeBoard {
 public:
  using TimePoint = rendezvous::TimePoint;
  using Orders = std::vector<NodeOrder>;

  /// Time for which other starts under way may fail after the first failed one, so that the user learns of
  /// all of them.
  static constexpr rendezvous::Milliseconds kCollectFailuresFor{1500};

  /// `names` are those of the nodes; the job may do without all but `needed` of them; `may_restart` says that
  /// it may also when one is lost while workers run.
  NodeBoard(std::vector<std::string> names, std::size_t needed, bool may_restart = true);

  void starting(std::size_t node, TimePoint now);
  /// Takes how much of a copy is on its way to a node that has no muster.
  void copying(std::size_t node, std::uint64_t bytes, std::uint64_t of);
  /// Takes a start that failed in a way that passes; it will be tried again.
  void retrying(std::size_t node, const std::string& cause);
  /// Takes the hello of an agent, which has said who it is.
  Orders greeted(std::size_t node);
  /// Takes the news that the coordinator, on node 0, listens.
  Orders listening();
  Orders start_failed(std::size_t node, HostFailure failure, TimePoint now);
  void reported(std::size_t node);
  /// Takes the report of a node that could not do its part. The other nodes may hear of that through us only.
  Orders gave_up(std::size_t node);
  /// Takes the end of the process that led to the node, after a report.
  void ended(std::size_t node);
  /// Takes the loss of a node that is gone without a report, and to which no other way leads.
  Orders lost(std::size_t node, HostFailure failure);
  /// Ends the job because of a signal, a deadline, or a failure of ours.
  Orders stop();
  Orders kill();
  /// Cuts off everything that is left, at once.
  Orders cut_all();
  /// Takes the time, and returns what became due.
  Orders tick(TimePoint now);

  /// Returns when tick() is due next.
  std::optional<TimePoint> next_tick() const { return cut_at_; }

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
  enum class State { waiting, starting, greeted, instructed, reported, over };

  struct Node {
    std::string name;
    State state = State::waiting;
    bool knows_coordinator = false;
    bool reported = false;
    bool failed = false;
    bool was_instructed = false;
    /// Whether we have cut the node off, so that its end is no failure.
    bool cut = false;
    int attempts = 0;
    TimePoint since{};
    std::string last_cause;
    std::string progress;
  };

  void instruct(std::size_t node, Orders& orders);
  Orders end_all(NodeOrder::Kind kind);
  void cut(std::size_t node, Orders& orders);
  void fail(std::size_t node, HostFailure failure);
  bool can_do_without(std::size_t node) const;
  /// Returns whether the job can do without the node; if so, its failure is marked as spared.
  bool spare(std::size_t node);

  std::vector<Node> nodes_;
  std::size_t needed_;
  bool may_restart_;
  bool listening_ = false;
  bool stopping_ = false;
  std::optional<TimePoint> cut_at_;
  std::vector<HostFailure> failures_;
};

}  // namespace muster::launcher
