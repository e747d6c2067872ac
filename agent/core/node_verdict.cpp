// SPDX-License-Identifier: Apache-2.0
#include "agent/core/node_verdict.hpp"

#include "rendezvous/base/exit_code.hpp"

#include <csignal>
#include <utility>

namespace muster::agent {
namespace {

rendezvous::RoundOutcome outcome_for_coordinator(RoundOutcome outcome) {
  return outcome == RoundOutcome::succeeded ? rendezvous::RoundOutcome::succeeded
         : outcome == RoundOutcome::failed  ? rendezvous::RoundOutcome::failed
                                            : rendezvous::RoundOutcome::stopped;
}

/// An order to end reaches one node before another: the end of the first is no cause of its own.
bool by_order(const rendezvous::RoundEnd& end) {
  return end.cause == rendezvous::RoundEndCause::node_left;
}

}  // namespace

int stop_signal_of(const rendezvous::RoundEnd& end) {
  const int signal = end.exit_code - kExitSignalBase;
  return end.cause == rendezvous::RoundEndCause::node_left && signal > 0 && signal < NSIG ? signal : SIGTERM;
}

void NodeVerdict::fail(const std::string& text) {
  if (error_.empty()) error_ = text;
}

void NodeVerdict::round_ended(const rendezvous::RoundEnd& end, bool goes_on) {
  if (!ended_) ended_ = end;
  decided_ = decided_ || (goes_on && !end.again && !by_order(end));
}

void NodeVerdict::job_closed(const rendezvous::JobClosed& closed, bool goes_on) {
  closed_ = closed;
  decided_ = decided_ || (goes_on && !closed.succeeded && !(ended_ && by_order(*ended_)));
}

void NodeVerdict::note_decision(const rendezvous::RoundEnd& end, bool goes_on) {
  if (end.decision.empty() || (!goes_on && (end.again || by_order(end)))) return;
  if (decisions_.size() == kDecisionsKept) decisions_.erase(decisions_.begin());
  RestartDecision decision;
  decision.round = end.round;
  decision.cause = end.text;
  decision.decision = end.decision;
  decision.again = end.again;
  decision.restarts = end.restarts;
  decision.delay_ms = end.delay.count();
  decision.is_cause = end.decision_is_cause;
  decisions_.push_back(std::move(decision));
}

rendezvous::LeaveRound NodeVerdict::leave_round(rendezvous::RoundNumber round, RoundOutcome outcome,
                                                const rendezvous::FailRound& failure, int stop_signal) const {
  rendezvous::LeaveRound request;
  request.round = round;
  request.outcome = outcome_for_coordinator(outcome);
  if (!failure.text.empty()) {
    request.exit_code = failure.exit_code;
    request.text = failure.text;
  } else if (!error_.empty()) {
    request.exit_code = kExitLauncherFailure;
    request.text = error_;
  } else if (stop_signal != 0) {
    request.exit_code = kExitSignalBase + stop_signal;
    request.text = told_.empty() ? host_ + " was told to stop" : told_;
  }
  return request;
}

rendezvous::RoundEnd NodeVerdict::end_of_round(const rendezvous::Left& left,
                                               const rendezvous::FailRound& failure) const {
  if (ended_) return *ended_;
  rendezvous::RoundEnd end;
  end.round = left.round;
  end.node = node_;
  end.text = failure.text.empty() ? error_ : failure.text;
  end.again = left.next == rendezvous::NextStep::join;
  end.restarts = left.restarts;
  end.delay = left.delay;
  end.decision = left.decision;
  return end;
}

/// The job ended for want of nodes, or while this node's own failure was about to be made good: no report of
/// another node and no worker of this one says why.
bool NodeVerdict::names_no_other(const NodeReport& report) const {
  return closed_->node.empty() || (closed_->node == node_ && report.outcome == NodeOutcome::stopped);
}

void NodeVerdict::settle_after_order(NodeReport& report, bool workers_succeeded) const {
  if (report.outcome != NodeOutcome::failed)
    report.outcome = workers_succeeded ? NodeOutcome::succeeded : NodeOutcome::stopped;
  if (report.outcome == NodeOutcome::stopped && !told_.empty()) report.error = told_ + kHowToEndAJob;
}

void NodeVerdict::settle(NodeReport& report, bool goes_on, bool workers_succeeded) const {
  report.decisions = decisions_;
  if (!error_.empty()) {
    report.outcome = NodeOutcome::agent_error;
    report.error = error_;
  } else if (!goes_on && !decided_) {
    settle_after_order(report, workers_succeeded);
  } else if (ended_ && ended_->node != node_) {
    report.ended_by =
        EndedBy{ended_->node,      ended_->host,        ended_->rank,
                ended_->exit_code, cause_text(*ended_), ended_->cause == rendezvous::RoundEndCause::hung};
  } else if (closed_ && !closed_->succeeded && names_no_other(report)) {
    report.outcome = NodeOutcome::agent_error;
    report.error = closed_->reason;
    report.error_is_verdict = true;
  } else if (closed_ && !closed_->succeeded && closed_->node != node_) {
    report.ended_by =
        EndedBy{closed_->node, closed_->host, closed_->rank, closed_->exit_code, closed_->reason, false};
  }
}

}  // namespace muster::agent
