// SPDX-License-Identifier: Apache-2.0
// What one node's part in its job came to, and why: for the coordinator at the end of a round, and for the
// launcher at the end of the job. Pure.
#pragma once

#include "agent/core/node_report.hpp"
#include "agent/core/worker_group.hpp"
#include "rendezvous/protocol/message.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

/// What follows the text of a stop signal that somebody sent to one of our processes.
inline constexpr const char* kHowToEndAJob = "; to end a job, signal its 'muster run'";

/// The signal that this node's workers get at the end of a round: of a node that was told to stop, the one
/// that its own workers got; else SIGTERM. Pure.
int stop_signal_of(const rendezvous::RoundEnd& end);

/// Keeps what this node's own failures, whoever told it to stop, and the coordinator have said. One thread.
class NodeVerdict {
 public:
  /// `node` is its name in the job, `host` the one that texts name.
  NodeVerdict(std::string node, std::string host) : node_(std::move(node)), host_(std::move(host)) {}

  /// Something of ours failed. The first text counts.
  void fail(const std::string& text);

  /// Somebody who is not of the job told one of this node's processes to stop; `text` says which, and how.
  void told_to_stop(std::string text) { told_ = std::move(text); }

  void begin_round() { ended_.reset(); }

  /// The coordinator has ended the present round. The first end of a round counts. `goes_on`: the job was not
  /// ordered to end.
  void round_ended(const rendezvous::RoundEnd& end, bool goes_on);

  /// The coordinator has closed the job.
  void job_closed(const rendezvous::JobClosed& closed, bool goes_on);

  /// Keeps what was decided at the end of a round, of the last kDecisionsKept rounds. Of a job that was
  /// ordered to end (not `goes_on`) it counts only if no other round was to follow.
  void note_decision(const rendezvous::RoundEnd& end, bool goes_on);

  /// What was decided at the ends of rounds so far.
  const std::vector<RestartDecision>& decisions() const { return decisions_; }

  bool failed() const { return !error_.empty(); }

  bool is_closed() const { return closed_.has_value(); }

  bool round_has_ended() const { return ended_.has_value(); }

  /// What the coordinator said; valid if round_has_ended().
  const rendezvous::RoundEnd& round_end() const { return *ended_; }

  /// What the coordinator is told when no worker of the round is alive here any more. `failure`: of the first
  /// worker that failed, with an empty text if none did. `stop_signal`: of the first order to end; 0: none.
  rendezvous::LeaveRound leave_round(rendezvous::RoundNumber round, RoundOutcome outcome,
                                     const rendezvous::FailRound& failure, int stop_signal) const;

  /// The end of the round that was left with this answer. A node that has ended it by its own failure is told
  /// only what was decided then.
  rendezvous::RoundEnd end_of_round(const rendezvous::Left& left, const rendezvous::FailRound& failure) const;

  /// Completes the report of the last round: outcome, who or what ended it, and decisions. `goes_on`: the job
  /// was not ordered to end. `workers_succeeded`: all of this node's, in the last round.
  void settle(NodeReport& report, bool goes_on, bool workers_succeeded) const;

 private:
  void settle_after_order(NodeReport& report, bool workers_succeeded) const;
  bool names_no_other(const NodeReport& report) const;

  std::string node_;
  std::string host_;
  std::string error_;
  std::string told_;
  std::optional<rendezvous::RoundEnd> ended_;
  std::optional<rendezvous::JobClosed> closed_;
  /// The job's end was decided before there was an order to end.
  bool decided_ = false;
  std::vector<RestartDecision> decisions_;
};

}  // namespace muster::agent
