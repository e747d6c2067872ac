// SPDX-License-Identifier: Apache-2.0
// The life of a round: its nodes are complete, its store opens, its workers run, it is over, and at last no
// worker of it is alive. Also the restart after a failed round, and the end of the job.
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/core/coordinator.hpp"

#include <utility>

namespace muster::rendezvous {
namespace {

/// The number of newcomers that are told the status at once between two texts to everybody.
constexpr int kNewcomersToldAtOnce = 64;
/// The text that follows the host of a node, as the reason why the job cannot go on without it.
constexpr const char* kHoldsTheStore = " holds the store, and the job ends with it";

}  // namespace

Effects Coordinator::on_store_opened(RoundNumber round, const Endpoint& endpoint, TimePoint now) {
  if (!opens(round)) {
    effects_.emplace_back(effect::CloseStore{round});
  } else if (!active_->complete()) {
    effects_.emplace_back(effect::CloseStore{round});
    abandon_opening();
  } else {
    // The order is remembered only now, because an attempt that nobody has heard of must change nobody's
    // place.
    forming_.remember_order(active_->present());
    hang_watch_.begin(active_->world_size());
    straggler_watch_.begin(active_->world_size());
    for (const RoundResult& result : active_->begin(endpoint, restart_policy_.restarts(), now))
      send(active_->seats()[static_cast<std::size_t>(result.node_rank)].node, result);
  }
  return finish(now);
}

Effects Coordinator::on_store_failed(RoundNumber round, const std::string& text, TimePoint now) {
  if (opens(round)) {
    for (const NodeName& node : active_->present())
      if (const auto session = session_of(node)) refuse(*session, Errc::environment, "join", text);
    active_.reset();
    forming_.restart(round);
  }
  return finish(now);
}

/// Gives up the round whose store was opening. The nodes that are still there take part in the next attempt
/// under the same number, because nobody has heard of this one.
void Coordinator::abandon_opening() {
  const RunningRound abandoned = std::move(*active_);
  active_.reset();
  forming_.restart(abandoned.number());
  for (const Seat& seat : abandoned.seats())
    if (abandoned.has(seat.node)) forming_.join(seat.node, seat.request);
}

bool Coordinator::opens(RoundNumber round) const {
  return active_ && active_->number() == round && active_->opening();
}

bool Coordinator::takes_part(const NodeName& node, RoundNumber round) const {
  return active_ && active_->number() == round && !active_->opening() && active_->has(node);
}

bool Coordinator::enough_nodes(int nodes) const {
  // Other nodes may come, or the lost ones may come back, if any node is left to wait for them.
  return nodes >= options_.limits.min_nodes || (!options_.only_expected && nodes > 0);
}

/// Decides whether, when and why the job goes on after the round's end, or why it does not.
void Coordinator::decide_restart(RoundEnd& end, EndedRound& ended, TimePoint now) {
  ended.cause = end.cause;
  ended.exit_code = end.exit_code;
  ended.lasted = active_->lasted(now);
  ended.nodes = members_.nodes() - (end.cause == RoundEndCause::node_left ? 1 : 0);
  ended.enough = enough_nodes(ended.nodes);
  RestartPolicy without_its_store = restart_policy_;
  RestartPolicy::Decision decision = without_its_store.decide(ended);
  const bool gone = end.cause == RoundEndCause::node_lost || end.cause == RoundEndCause::node_left;
  if (decision.again && gone && end.node == own_node_)
    decision = {.lacks_nodes = true, .text = end.host + kHoldsTheStore};
  else
    restart_policy_ = std::move(without_its_store);
  end.again = decision.again;
  end.restarts = restart_policy_.restarts();
  end.delay = decision.delay;
  end.decision = decision.text;
  if (decision.delay.count() > 0) forming_.hold(now, decision.delay);
  // The failure of a worker, or a hang, is a complete cause by itself, whatever was decided about a restart.
  const bool complete = end.cause == RoundEndCause::node_failed || end.cause == RoundEndCause::hung;
  const bool is_cause = !complete || decision.lacks_nodes;
  end.decision_is_cause = !decision.again && is_cause;
}

void Coordinator::end_round(RoundEnd end, TimePoint now, EndedRound ended) {
  if (!active_->running()) return;
  end.round = active_->number();
  decide_restart(end, ended, now);
  last_failure_ = JobClosed{cause_text(end), false, end.exit_code, end.node, end.host, end.rank};
  active_->end(end);
  hang_watch_.end();
  straggler_watch_.begin(0);
  if (end.cause == RoundEndCause::node_lost || end.cause == RoundEndCause::node_left) gone_[end.host] = now;
  for (const NodeName& node : active_->present())
    if (node != end.node) send(node, end);
  // The launcher is told, so that it does not wait for the connection that leads to the lost node.
  const auto launcher = end.cause == RoundEndCause::node_lost ? launcher_session() : std::nullopt;
  if (launcher) send(*launcher, end);
  if (end.cause != RoundEndCause::nodes_waiting) fall_short();
}

/// Notes that not every node of the round succeeds, and tells the nodes that have succeeded and wait for the
/// others.
void Coordinator::fall_short() {
  const std::vector<NodeName> waiting = active_->fall_short();
  for (const NodeName& node : waiting) {
    send(node, active_->told());
    if (active_->told().again) forming_.expect(node);
  }
}

/// Notes that no worker of the round can be alive on `node` any more.
void Coordinator::depart(const NodeName& node) {
  active_->depart(node);
  status_changed_ = true;
  if (!active_->deserted()) return;
  effects_.emplace_back(effect::CloseStore{active_->number()});
  const RunningRound ended = std::move(*active_);
  active_.reset();
  if (ended.may_succeed()) {
    JobClosed verdict;
    verdict.reason = "round " + std::to_string(ended.number()) + " ended with success";
    verdict.succeeded = true;
    end_job(std::move(verdict));
  } else if (!ended.told().again && last_failure_) {
    end_job(*last_failure_);
  }
}

void Coordinator::end_job(JobClosed verdict) {
  if (job_over_) return;
  job_over_ = std::move(verdict);
  for (const NodeName& node : forming_.candidates()) forming_.withdraw(node);
  for (const SessionId session : members_.sessions()) send(session, *job_over_);
  effects_.emplace_back(effect::EndJob{job_over_->reason, *job_over_});
}

/// Ends the job because the node that holds the store is gone and no end of a round tells the others so.
void Coordinator::close_for(const RoundEnd& loss) {
  close({loss.text + "; " + loss.host + kHoldsTheStore, false, loss.exit_code, loss.node, loss.host,
         loss.rank});
}

Effects Coordinator::close(const std::string& reason, TimePoint now) {
  JobClosed verdict;
  verdict.reason = reason;
  verdict.exit_code = kExitLauncherFailure;
  close(std::move(verdict));
  return finish(now);
}

void Coordinator::close(JobClosed verdict) {
  end_job(std::move(verdict));
  // The verdict ends the round, and not the first node that leaves it.
  if (active_ && active_->opening()) active_.reset();
  if (active_) active_->close();
}

JobStatus Coordinator::status(TimePoint now) const {
  JobStatus status;
  status.run_id = options_.run_id;
  status.over = job_over_.has_value();
  status.round = active_ ? active_->number() : forming_.number();
  status.nodes = connected_nodes();
  status.restarts = restart_policy_.restarts();
  status.text = job_over_                       ? "over: " + job_over_->reason
                : active_ && active_->running() ? active_->text()
                                                : forming_status(now).text;
  return status;
}

std::string Coordinator::remark(const NodeName& node, TimePoint now) const {
  const auto found = states_.find(node);
  if (found == states_.end()) return "";
  if (!found->second.ago) return found->second.text;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - found->second.since);
  return found->second.text + " " + std::to_string(seconds.count()) + " s ago";
}

/// The status of the forming round: the nodes that it waits for, and the time since when lost nodes that
/// another may replace are gone.
Status Coordinator::forming_status(TimePoint now) const {
  const auto describe = [this, now](const NodeName& node) { return remark(node, now); };
  Status status = forming_.status(previous(), describe);
  const bool lacking = members_.nodes() < options_.limits.min_nodes && enough_nodes(members_.nodes());
  if (gone_.empty() || !lacking || previous() == Round::Previous::running) return status;
  std::vector<std::string> gone;
  for (const auto& [host, since] : gone_) {
    if (gone.size() == kMaxNamesInText) break;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - since);
    gone.push_back(host + " (gone for " + std::to_string(seconds.count()) + " s)");
  }
  status.text +=
      "; " + joined(gone) + and_more(gone_.size() - gone.size()) + " may come back, or another in its place";
  return status;
}

Round::Previous Coordinator::previous() const {
  if (!active_) return Round::Previous::gone;
  return active_->over() ? Round::Previous::draining : Round::Previous::running;
}

void Coordinator::advance(TimePoint now) {
  check_nodes();
  if (job_over_) return;
  const bool room = active_ && active_->running() && active_->complete() &&
                    static_cast<int>(active_->seats().size()) < options_.limits.max_nodes;
  if (room && forming_.joined() > 0) {
    RoundEnd end;
    end.cause = RoundEndCause::nodes_waiting;
    end.text = "a new node wants to join and there is room: the job goes on with it";
    end_round(std::move(end), now);
  }
  switch (forming_.advance(now, previous())) {
    case Round::Phase::complete:
      complete_round();
      break;
    case Round::Phase::timed_out:
      time_out(now);
      break;
    case Round::Phase::waiting:
    case Round::Phase::last_call:
      break;
  }
}

void Coordinator::time_out(TimePoint now) {
  const std::string text = "no round " + std::to_string(forming_.number()) + " after " +
                           std::to_string(options_.limits.join_timeout.count()) +
                           " ms: " + forming_status(now).text;
  JobClosed verdict;
  if (last_failure_) {
    verdict = *last_failure_;
    verdict.reason = text + "; the round before ended because " + last_failure_->reason;
  } else {
    verdict.reason = text + "; start the missing nodes or raise join_timeout";
  }
  if (verdict.exit_code == 0) verdict.exit_code = kExitLauncherFailure;
  end_job(std::move(verdict));
}

/// Ends a job that has begun and lacks the nodes to go on, instead of waiting for nodes that cannot come.
void Coordinator::check_nodes() {
  if (job_over_ || !last_failure_ || previous() == Round::Previous::running) return;
  const bool to_go_on = !active_ || (active_->told().again && !active_->may_succeed());
  if (!to_go_on || enough_nodes(members_.nodes())) return;
  JobClosed verdict = last_loss_.value_or(*last_failure_);
  verdict.reason += "; " + nodes_left_text(options_.limits.min_nodes, members_.nodes());
  if (verdict.exit_code == 0) verdict.exit_code = kExitLauncherFailure;
  end_job(std::move(verdict));
}

void Coordinator::complete_round() {
  active_.emplace(forming_.number(), forming_.take_seats());
  forming_.restart(active_->number() + 1);
  gone_.clear();
  effects_.emplace_back(effect::OpenStore{active_->number()});
  forming_.advance(TimePoint{}, previous());
}

/// Tells the first newcomers the status at once and everybody else at most once a second: n joins must not
/// cost n * n messages, nor a thousand joins a thousand texts.
void Coordinator::tell_status(TimePoint now) {
  const bool all_now = status_changed_ && now >= next_status_;
  if (newcomer_ && forming_.has(*newcomer_) && !all_now && told_at_once_ < kNewcomersToldAtOnce) {
    send(*newcomer_, forming_status(now));
    ++told_at_once_;
  }
  newcomer_.reset();
  if (forming_.joined() == 0) {
    status_changed_ = false;
    told_at_once_ = 0;
  }
  if (!status_changed_ || now < next_status_) return;
  const Status status = forming_status(now);
  for (const NodeName& node : forming_.candidates()) send(node, status);
  if (const auto launcher = launcher_session()) send(*launcher, status);
  status_changed_ = false;
  told_at_once_ = 0;
  next_status_ = now + std::chrono::seconds(1);
}

/// Tells the nodes of the round when its ranks have stood still for too long, and when they move again; and
/// which ranks the others wait for again and again.
void Coordinator::watch_ranks(TimePoint now) {
  if (!active_ || !active_->running()) return;
  if (auto slow = straggler_watch_.news(now)) {
    slow->round = active_->number();
    for (const NodeName& node : active_->present()) send(node, *slow);
  }
  if (hang_watch_.ask_store(now)) effects_.emplace_back(effect::AskStore{active_->number()});
  const auto text = hang_watch_.look(now);
  if (!text) return;
  const HangVerdict& verdict = hang_watch_.verdict();
  JobNotice notice{active_->number(), *text, verdict.level, verdict.culprits, hang_watch_.still_for(now)};
  if (notice.culprits.size() > kMaxCulprits) notice.culprits.resize(kMaxCulprits);
  for (const NodeName& node : active_->present()) send(node, notice);
  end_hung_round(now);
}

/// Ends the round if it has just been said to be hung, and that is what the user has chosen (--on-hang).
void Coordinator::end_hung_round(TimePoint now) {
  const HangVerdict& verdict = hang_watch_.verdict();
  if (options_.limits.on_hang == HangAction::report || verdict.level != HangLevel::is_hung) return;
  RoundEnd end;
  end.cause = RoundEndCause::hung;
  end.text = verdict.text;
  end.exit_code = kExitHung;
  if (!verdict.culprits.empty()) end.rank = verdict.culprits.front();
  end_round(std::move(end), now);
}

void Coordinator::schedule() {
  std::optional<TimePoint> next = members_.next_tick();
  const auto consider = [&next](std::optional<TimePoint> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  // No round forms once the job is over, so the deadline of the forming round would expire again and again.
  if (!job_over_) consider(forming_.deadline());
  if (status_changed_) consider(next_status_);
  if (active_ && active_->running()) {
    consider(hang_watch_.next_look());
    consider(hang_watch_.next_question());
  }
  if (!next || (armed_ && *armed_ <= *next)) return;
  armed_ = next;
  effects_.emplace_back(effect::SetTimer{*next});
}

Effects Coordinator::finish(TimePoint now) {
  advance(now);
  tell_status(now);
  watch_ranks(now);
  schedule();
  return std::exchange(effects_, {});
}

}  // namespace muster::rendezvous
