// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/referee.hpp"

#include <algorithm>
#include <array>

namespace muster::rendezvous::sim {
namespace {

void require(bool holds, const std::string& text) {
  if (!holds) throw Violation(text);
}

std::string round_text(RoundNumber round) {
  return "round " + std::to_string(round);
}

}  // namespace

void Referee::hears(const NodeName& node, const Message& message, std::int64_t now_ms) {
  if (const auto* leave = std::get_if<LeaveRound>(&message)) {
    leaves(node, *leave, now_ms);
  } else if (std::holds_alternative<Join>(message)) {
    expected_.erase(node);
    if (!has_place(node) || departed_.count(node) > 0) joined_.insert(node);
  } else if (const auto* fail = std::get_if<FailRound>(&message)) {
    disturbed_ = disturbed_ || fail->round == last_result_round_;
    Told& told = told_[fail->round];
    told.failed_at_ms = told.failed_at_ms.value_or(now_ms);
  }
}

void Referee::tells(const NodeName& node, int workers, const Message& message, const Moment& moment) {
  if (const auto* result = std::get_if<RoundResult>(&message))
    this->result(node, workers, *result);
  else if (const auto* end = std::get_if<RoundEnd>(&message))
    round_end(node, *end, moment);
  else if (const auto* left = std::get_if<Left>(&message))
    this->left(node, *left);
  else if (const auto* error = std::get_if<ErrorReply>(&message))
    refused(node, *error);
  else if (const auto* closed = std::get_if<JobClosed>(&message))
    verdict(*closed);
}

void Referee::gone(const NodeName& node) {
  waiting_.erase(node);
  joined_.erase(node);
  expected_.erase(node);
  if (!has_place(node)) return;
  departed_.insert(node);
  disturbed_ = true;
}

void Referee::store_opens(RoundNumber round, std::int64_t now_ms) {
  require(open_ == -1,
          "the store of " + round_text(round) + " opens while that of " + round_text(open_) + " is open");
  require(round > last_result_round_, round_text(round) + " opens a second time");
  require(!verdict_, "a store opens after the verdict");
  // Where every node of the round before was lost there was nobody to tell.
  if (last_result_round_ >= 0)
    require(told_[last_result_round_].again.value_or(true),
            round_text(round) + " begins though it was said that none follows");
  if (last_result_round_ >= 0)
    require(now_ms >= told_[last_result_round_].not_before_ms,
            round_text(round) + " begins before the delay that was told has passed");
  open_ = round;
  // Nodes of the round before are waited for, even by a full house, until the last call ends.
  const bool called =
      enough_since_ms_ && now_ms - *enough_since_ms_ >= options_.limits.last_call_timeout.count();
  require(expected_.empty() || called, round_text(round) + " does not wait for " +
                                           (expected_.empty() ? "" : *expected_.begin()) +
                                           ", which was told to join it");
  expected_.clear();
}

void Referee::store_closes(RoundNumber round) {
  require(open_ == round, "the store of " + round_text(round) + " closes but is not open");
  open_ = -1;
}

void Referee::result(const NodeName& node, int workers, const RoundResult& result) {
  const std::string what = "result of " + round_text(result.round) + " for " + node + ": ";
  require(result.round == open_, what + "its store is not open");
  if (result.round != last_result_round_) begin_round(result, what);
  check_restarts(result.restarts, what);
  require(result.restarts == restarts_of_round_, what + "nodes disagree about the restarts");
  require(result.nodes == nodes_, what + "nodes disagree about their number");
  require(result.node_rank == next_node_rank_, what + "node ranks are not 0, 1, 2, ...");
  require(result.first_rank == next_rank_, what + "ranks have a gap or an overlap");
  require(std::find(order_.begin(), order_.end(), node) == order_.end(), what + "second place for one node");
  order_.push_back(node);
  joined_.erase(node);
  ++next_node_rank_;
  next_rank_ += workers;
  if (!settled()) return;
  ++complete_rounds_;
  require(result.world_size == next_rank_, what + "world size is not the sum of the workers");
  check_order(what);
}

void Referee::begin_round(const RoundResult& result, const std::string& what) {
  require(settled(), what + "the round before was not given out in full");
  last_result_round_ = result.round;
  nodes_ = result.nodes;
  next_node_rank_ = 0;
  next_rank_ = 0;
  previous_order_ = std::move(order_);
  order_.clear();
  departed_.clear();
  disturbed_ = false;
  restarts_of_round_ = result.restarts;
  const bool told = last_restarts_round_ < 0 || told_[last_restarts_round_].again.has_value();
  require(result.restarts == restarts_ || (!told && result.restarts == restarts_ + 1),
          what + "the restarts are not those that were announced");
  restarts_ = result.restarts;
  last_restarts_round_ = result.round;
  require(nodes_ >= options_.limits.min_nodes && nodes_ <= options_.limits.max_nodes,
          what + "number of nodes outside min:max");
}

void Referee::check_order(const std::string& what) {
  if (ordered_) {
    require(std::is_sorted(order_.begin(), order_.end()), what + "not the node ranks that were wanted");
    return;
  }
  // Nodes that were there before keep their order.
  std::size_t place = 0;
  bool newcomers = false;
  for (const NodeName& name : order_) {
    const auto found = std::find(previous_order_.begin(), previous_order_.end(), name);
    if (found == previous_order_.end()) {
      newcomers = true;
      continue;
    }
    require(!newcomers, what + "a newcomer has a place before " + name);
    const auto old_place = static_cast<std::size_t>(found - previous_order_.begin()) + 1;
    require(old_place > place, what + "the order of the nodes has changed");
    place = old_place;
  }
}

void Referee::check_restarts(int restarts, const std::string& what) {
  require(restarts <= options_.limits.max_restarts, what + "more restarts than allowed");
  require(restarts >= 0, what + "negative restarts");
}

/// How long the coordinator makes the job wait before a restart that it counts.
void Referee::check_delay(int restarts, Milliseconds delay, const std::string& what) const {
  constexpr std::array<int, 7> kSeconds{0, 1, 2, 4, 8, 16, 30};
  const bool counted = restarts > restarts_of_round_;
  const bool waits = counted && options_.limits.restart_rule != RestartRule::torchrun;
  const auto place = std::min(static_cast<std::size_t>(std::max(restarts, 1)), kSeconds.size()) - 1;
  require(delay == std::chrono::seconds(waits ? kSeconds.at(place) : 0), what + "another delay");
}

void Referee::check_decision(const RoundEnd& end, const Moment& moment, const std::string& what) const {
  const JobLimits& limits = options_.limits;
  const bool as_torchrun = options_.limits.restart_rule == RestartRule::torchrun;
  const bool elastic = limits.min_nodes < limits.max_nodes;
  const bool hung = end.cause == RoundEndCause::hung;
  const bool failed = hung || end.cause == RoundEndCause::node_failed;
  require(!hung || limits.on_hang != HangAction::report, what + "a hang ends it, which nobody has asked for");
  require(!end.again || !hung || limits.on_hang == HangAction::restart,
          what + "another round follows, though a hung job is to end");
  const bool bearable =
      end.cause == RoundEndCause::node_lost && !as_torchrun && elastic && moment.nodes >= limits.min_nodes;
  const int left = moment.nodes - (end.cause == RoundEndCause::node_left ? 1 : 0);
  const bool replaced = end.cause == RoundEndCause::node_left && !elastic && left < limits.min_nodes;
  const bool counts = failed || replaced || (end.cause == RoundEndCause::node_lost && !bearable);
  require(end.restarts == restarts_of_round_ + (counts && end.again ? 1 : 0), what + "restarts miscounted");
  check_delay(end.restarts, end.delay, what);
  const bool not_found = failed && end.exit_code == 127 && !as_torchrun;
  require(!end.again || !not_found, what + "a program that was not found is started again");
  const bool enough = left >= limits.min_nodes || (!options_.only_expected && left > 0);
  const bool may_stop = !enough || restarts_of_round_ >= options_.limits.max_restarts || not_found ||
                        options_.limits.restart_rule == RestartRule::progress ||
                        (hung && limits.on_hang == HangAction::abort);
  require(end.again || !failed || may_stop, what + "no other round follows, though one could");
  require(end.again || !bearable, what + "no other round follows, though enough nodes are left");
}

void Referee::agree(RoundNumber round, bool again, const std::string& who) {
  Told& told = told_[round];
  require(!told.again || *told.again == again, "the nodes of " + round_text(round) +
                                                   " are told different things, " + who + " that " +
                                                   (again ? "another follows" : "no other follows"));
  told.again = again;
}

void Referee::round_end(const NodeName& node, const RoundEnd& end, const Moment& moment) {
  const std::string what = "end of " + round_text(end.round) + " for " + node + ": ";
  require(end.round == last_result_round_, what + "that round is not the present one");
  require(end.node != node, what + "it has ended it itself");
  check_restarts(end.restarts, what);
  Told& told = told_[end.round];
  if (!told.again) {
    check_decision(end, moment, what);
    told.not_before_ms = moment.now_ms + end.delay.count();
  }
  const bool first = !last_end_ || last_end_->round != end.round;
  require(first || *last_end_ == end, what + "another node was told something else");
  restarts_ = end.restarts;
  disturbed_ = true;
  last_end_ = end;
  if (waiting_.erase(node) > 0 && end.again && joined_.count(node) == 0) expected_.insert(node);
  agree(end.round, end.again, node);
}

void Referee::refused(const NodeName& node, const ErrorReply& error) {
  if (error.about == "join") joined_.erase(node);
}

void Referee::check_settled(int nodes, std::int64_t now_ms) {
  require(settled(), "a round was given out in part");
  if (static_cast<int>(joined_.size()) < options_.limits.min_nodes)
    enough_since_ms_.reset();
  else if (!enough_since_ms_)
    enough_since_ms_ = now_ms;
  if (verdict_) return;
  if (open_ == -1) {
    require(waiting_.empty(),
            (waiting_.empty() ? "" : *waiting_.begin()) + " waits for a round that is gone");
    const JobLimits& limits = options_.limits;
    require(last_result_round_ == -1 || nodes >= limits.min_nodes || (!options_.only_expected && nodes > 0),
            "the job goes on though only " + std::to_string(nodes) + " nodes are left");
  }
  if (open_ == -1 || open_ != last_result_round_) return;
  if (!disturbed_ && nodes_ < options_.limits.max_nodes)
    require(joined_.empty(), (joined_.empty() ? "" : *joined_.begin()) + " waits though " +
                                 round_text(open_) + " has room for it");
}

void Referee::leaves(const NodeName& node, const LeaveRound& leave, std::int64_t now_ms) {
  if (leave.round != last_result_round_) return;
  departed_.insert(node);
  disturbed_ = true;
  Told& told = told_[leave.round];
  if (leave.outcome == RoundOutcome::failed) told.failed_at_ms = told.failed_at_ms.value_or(now_ms);
  if (!told.outcomes.emplace(node, leave.outcome).second) return;
  if (leave.outcome == RoundOutcome::stopped && !told.again && !verdict_) told.by_order.insert(node);
}

void Referee::left(const NodeName& node, const Left& left) {
  Told& told = told_[left.round];
  const std::string what = node + " leaves " + round_text(left.round) + ": ";
  require(told.outcomes.count(node) > 0, what + "it has not asked to");
  if (left.next == NextStep::wait) {
    require(told.outcomes.at(node) == RoundOutcome::succeeded, what + "waits without success");
    if (left.round == last_result_round_) waiting_.insert(node);
  } else if (left.next == NextStep::join) {
    // A node alone in its round is told by this only.
    if (!told.again) {
      check_delay(left.restarts, left.delay, what);
      told.not_before_ms = told.failed_at_ms.value_or(0) + left.delay.count();
      restarts_ = std::max(restarts_, restarts_of_round_ + 1);
    }
    if (left.round == last_result_round_ && joined_.count(node) == 0) expected_.insert(node);
    agree(left.round, true, node);
  } else if (!verdict_ && told.by_order.count(node) == 0) {
    agree(left.round, false, node);
  }
  check_restarts(restarts_, what);
}

void Referee::verdict(const JobClosed& verdict) {
  require(!verdict_ || *verdict_ == verdict,
          "two verdicts: '" + verdict_.value_or(JobClosed{}).reason + "' and '" + verdict.reason + "'");
  if (!verdict_) check_verdict(verdict);
  require(verdict.succeeded || verdict.exit_code != 0, "a failed job with exit code 0: " + verdict.reason);
  verdict_ = verdict;
}

void Referee::check_verdict(const JobClosed& verdict) {
  if (verdict.succeeded) {
    const Told& told = told_[last_result_round_];
    for (const NodeName& node : order_) {
      const auto outcome = told.outcomes.find(node);
      require(outcome != told.outcomes.end() && outcome->second == RoundOutcome::succeeded,
              "the job is said to have succeeded, but " + node + " has not");
    }
  } else if (last_end_ && last_end_->round == last_result_round_ && !last_end_->again) {
    require(verdict.node == last_end_->node && verdict.exit_code == last_end_->exit_code,
            "the verdict names '" + verdict.node + "', but '" + last_end_->node + "' has ended " +
                round_text(last_end_->round));
  }
}

void Referee::job_ends(const JobClosed& verdict) {
  require(!job_ended_, "the job ends twice");
  job_ended_ = true;
  this->verdict(verdict);
}

}  // namespace muster::rendezvous::sim
