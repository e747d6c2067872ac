// SPDX-License-Identifier: Apache-2.0
// Where each node of a job stands, from the first ssh to the last report, and what is to be done next. Pure:
// events and the time go in, orders come out.
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
    send_spec,         ///< its key and its part of the job
    send_coordinator,  ///< where the coordinator listens
    stop,              ///< an orderly end, by a message
    kill,              ///< an end without grace, by a message
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

  /// After the first failed start, others that are under way may fail for this long, so that the user learns
  /// of all of them.
  static constexpr rendezvous::Milliseconds kCollectFailuresFor{1500};

  /// `names` of the nodes; `needed`: the job may do without the others; `may_restart`: also when one is lost
  /// while workers run.
  NodeBoard(std::vector<std::string> names, std::size_t needed, bool may_restart = true);

  void starting(std::size_t node, TimePoint now);
  /// The node has no muster; so much of a copy is on its way.
  void copying(std::size_t node, std::uint64_t bytes, std::uint64_t of);
  /// A start failed in a way that passes; it will be tried again.
  void retrying(std::size_t node, const std::string& cause);
  /// The agent has said who it is.
  Orders greeted(std::size_t node);
  /// The coordinator, on node 0, listens.
  Orders listening();
  Orders start_failed(std::size_t node, HostFailure failure, TimePoint now);
  void reported(std::size_t node);
  /// The node has reported that it could not do its part. The others may never hear of it but through us.
  Orders gave_up(std::size_t node);
  /// The process that led there is gone, after a report.
  void ended(std::size_t node);
  /// The node is gone without a report, and no other way leads there.
  Orders lost(std::size_t node, HostFailure failure);
  /// The job is to end: by a signal, a deadline, a failure of ours.
  Orders stop();
  Orders kill();
  /// Everything that is left, now.
  Orders cut_all();
  /// Takes what became due.
  Orders tick(TimePoint now);

  /// When tick() is due next.
  std::optional<TimePoint> next_tick() const { return cut_at_; }

  /// No node is left to wait for.
  bool over() const;

  bool stopping() const { return stopping_; }

  /// Every node that is needed has greeted.
  bool complete() const;

  /// Starts that failed for good, and nodes that were lost, in the order of events.
  const std::vector<HostFailure>& failures() const { return failures_; }

  /// Text about the last failure, which is spared: who is gone, and that enough nodes are left, but for a
  /// restart.
  std::string spared_text() const;
  /// Its second half: how many are left.
  std::string rest_text() const;

  /// "62 of 64 nodes have answered; waiting for n07 (connecting for 4 s), n31 (ssh: connection closed; try
  /// 3)". Empty once every node has.
  std::string waiting_text(TimePoint now) const;
  /// Names of the nodes that were told to work, and have neither reported nor failed.
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
    /// We have cut it off, so its end is no news.
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
  /// Says so of its failure, too.
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
