// SPDX-License-Identifier: Apache-2.0
// Watches what the coordinator says and does, and holds it against the invariants of coordinator.hpp.
#pragma once

#include "rendezvous/core/coordinator.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace muster::rendezvous::sim {

/// An invariant does not hold.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// When the coordinator decides something, and how many nodes it has then.
struct Moment {
  std::int64_t now_ms = 0;
  int nodes = 0;
};

class Referee {
 public:
  /// `ordered`: every node wants the node rank that its name ends in.
  Referee(const CoordinatorOptions& options, bool ordered) : options_(options), ordered_(ordered) {}

  void store_opens(RoundNumber round, std::int64_t now_ms);
  void store_closes(RoundNumber round);
  /// The coordinator is about to take this message of the node.
  void hears(const NodeName& node, const Message& message, std::int64_t now_ms);
  /// The coordinator sends the node this; `workers` is what the node asked for.
  void tells(const NodeName& node, int workers, const Message& message, const Moment& moment);
  /// The coordinator has no session of it any more.
  void gone(const NodeName& node);
  void job_ends(const JobClosed& verdict);

  /// Rounds that were given out in full.
  int complete_rounds() const { return complete_rounds_; }

  int restarts() const { return restarts_; }

  /// After each decision: every result of the last round has been sent, and nobody waits for what cannot
  /// come. `nodes` are in.
  void check_settled(int nodes, std::int64_t now_ms);

  const std::optional<JobClosed>& verdict() const { return verdict_; }

 private:
  bool settled() const { return next_node_rank_ == nodes_; }

  /// What the nodes of one round were told about the next.
  struct Told {
    std::optional<bool> again;
    /// Who left it on an order, or with success, without being told to stop before.
    std::map<NodeName, RoundOutcome> outcomes;
    std::set<NodeName> by_order;
    /// When the first node said that it had failed.
    std::optional<std::int64_t> failed_at_ms;
    /// The next round may not begin before.
    std::int64_t not_before_ms = 0;
  };

  void result(const NodeName& node, int workers, const RoundResult& result);
  void begin_round(const RoundResult& result, const std::string& what);
  void round_end(const NodeName& node, const RoundEnd& end, const Moment& moment);
  void check_decision(const RoundEnd& end, const Moment& moment, const std::string& what) const;
  void leaves(const NodeName& node, const LeaveRound& leave, std::int64_t now_ms);
  void left(const NodeName& node, const Left& left);
  void refused(const NodeName& node, const ErrorReply& error);
  void verdict(const JobClosed& verdict);
  void check_verdict(const JobClosed& verdict);

  bool has_place(const NodeName& node) const {
    return std::find(order_.begin(), order_.end(), node) != order_.end();
  }

  void check_order(const std::string& what);
  void agree(RoundNumber round, bool again, const std::string& who);
  void check_restarts(int restarts, const std::string& what);
  void check_delay(int restarts, Milliseconds delay, const std::string& what) const;

  const CoordinatorOptions options_;
  const bool ordered_;
  RoundNumber open_ = -1;
  RoundNumber last_result_round_ = -1;
  int nodes_ = 0;
  int next_node_rank_ = 0;
  int next_rank_ = 0;
  int complete_rounds_ = 0;
  int restarts_ = 0;
  int restarts_of_round_ = 0;
  RoundNumber last_restarts_round_ = -1;
  std::vector<NodeName> order_;
  std::vector<NodeName> previous_order_;
  std::map<RoundNumber, Told> told_;
  /// Told to wait after their success, and not yet what for.
  std::set<NodeName> waiting_;
  /// They have asked for a place in a round, and have neither got one nor been refused.
  std::set<NodeName> joined_;
  /// Since when there are enough of them.
  std::optional<std::int64_t> enough_since_ms_;
  /// Told that another round follows, to which they belong, and not yet back.
  std::set<NodeName> expected_;
  /// Who has left the present round, or is gone.
  std::set<NodeName> departed_;
  /// Something has happened to the present round that may end it.
  bool disturbed_ = false;
  std::optional<RoundEnd> last_end_;
  std::optional<JobClosed> verdict_;
  bool job_ended_ = false;
};

}  // namespace muster::rendezvous::sim
