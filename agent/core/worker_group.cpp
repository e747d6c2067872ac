// SPDX-License-Identifier: Apache-2.0
#include "agent/core/worker_group.hpp"

#include "rendezvous/base/invariant.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace muster::agent {

WorkerGroup::WorkerGroup(int workers, std::chrono::milliseconds grace)
    : slots_(static_cast<std::size_t>(workers)), grace_(grace) {
  MUSTER_ASSERT(workers > 0 && grace.count() >= 0, "a group has workers and a grace period");
}

GroupActions WorkerGroup::exited(int local_rank, ExitStatus status, TimePoint now) {
  return exited({{local_rank, status}}, now);
}

GroupActions WorkerGroup::exited(const std::vector<WorkerEnd>& ends, TimePoint now) {
  bool any = false;
  bool failed = false;
  for (const WorkerEnd& end : ends) {
    if (!record_end(end.local_rank, end.status, true)) continue;
    any = true;
    failed = failed || !end.status.success();
  }
  return any ? act_on_ends(failed, now) : GroupActions{};
}

GroupActions WorkerGroup::not_started(int local_rank, ExitStatus status, TimePoint now) {
  return record_end(local_rank, status, false) ? act_on_ends(!status.success(), now) : GroupActions{};
}

bool WorkerGroup::record_end(int local_rank, ExitStatus status, bool started) {
  Slot& ended = slots_.at(static_cast<std::size_t>(local_rank));
  if (ended.ended || phase_ == Phase::over) return false;
  ended.ended = true;
  ended.started = started;
  ended.status = status;
  ended.arrival = ++arrivals_;
  MUSTER_ASSERT(arrivals_ <= static_cast<int>(slots_.size()), "a worker ends once");
  ended.after_stop = phase_ != Phase::running;
  if (!sent_.empty()) ended.stop_signal = sent_.back();
  return true;
}

GroupActions WorkerGroup::act_on_ends(bool failed, TimePoint now) {
  GroupActions actions;
  if (phase_ == Phase::running && failed) {
    failed_ = true;
    actions = begin_stop(SIGTERM, now);
  }
  if (arrivals_ == static_cast<int>(slots_.size()) && phase_ != Phase::killing) {
    phase_ = Phase::leftovers;
    if (!kill_at_) kill_at_ = now + grace_;
    actions.signal_workers = 0;
    actions.end_leftovers = true;
  }
  if (phase_ != Phase::running && phase_ != Phase::killing) actions.wake_at = kill_at_;
  return actions;
}

GroupActions WorkerGroup::begin_stop(int signal, TimePoint now) {
  GroupActions actions;
  phase_ = Phase::stopping;
  sent_.push_back(signal);
  kill_at_ = now + grace_;
  actions.signal_workers = signal;
  actions.wake_at = kill_at_;
  return actions;
}

GroupActions WorkerGroup::stop(int signal, TimePoint now, std::optional<std::chrono::milliseconds> grace) {
  if (phase_ == Phase::over || phase_ == Phase::killing) return {};
  ordered_ = true;
  if (phase_ == Phase::running) {
    grace_ = grace.value_or(grace_);
    own_grace_ = grace.has_value();
    return begin_stop(signal, now);
  }
  // A stop has begun already: the workers still get the new signal, but the deadline stays, or is earlier.
  // Where the end of the round came before the order that caused it, the order's grace period counts.
  GroupActions actions;
  if (grace) kill_at_ = std::exchange(own_grace_, true) ? std::min(*kill_at_, now + *grace) : now + *grace;
  if (std::find(sent_.begin(), sent_.end(), signal) == sent_.end()) {
    sent_.push_back(signal);
    actions.signal_workers = signal;
  }
  actions.wake_at = kill_at_;
  return actions;
}

GroupActions WorkerGroup::kill_now(TimePoint now) {
  if (phase_ == Phase::over || phase_ == Phase::killing) return {};
  ordered_ = true;
  return begin_killing(now);
}

GroupActions WorkerGroup::begin_killing(TimePoint now) {
  phase_ = Phase::killing;
  killing_since_ = now;
  kill_all_at_ = now + kHelperTime;
  GroupActions actions;
  actions.kill_workers = true;
  actions.wake_at = kill_all_at_;
  return actions;
}

GroupActions WorkerGroup::no_worker_killed(TimePoint now) {
  kill_all_at_ = now;
  return tick(now);
}

GroupActions WorkerGroup::descendants_gone() {
  GroupActions actions;
  if (phase_ == Phase::over || arrivals_ < static_cast<int>(slots_.size())) return actions;
  phase_ = Phase::over;
  actions.over = true;
  return actions;
}

GroupActions WorkerGroup::tick(TimePoint now) {
  GroupActions actions;
  switch (phase_) {
    case Phase::running:
    case Phase::over:
      return actions;
    case Phase::stopping:
    case Phase::leftovers:
      if (now >= *kill_at_) return begin_killing(now);
      actions.wake_at = kill_at_;
      return actions;
    case Phase::killing:
      break;
  }
  if (now < kill_all_at_) {
    actions.wake_at = kill_all_at_;
    return actions;
  }
  if (now - killing_since_ >= kUnkillableAfter) {
    unkillable_ = true;
    phase_ = Phase::over;
    actions.over = true;
    return actions;
  }
  actions.kill_all = true;
  actions.wake_at = now + kKillRepeat;
  return actions;
}

RoundOutcome WorkerGroup::outcome() const {
  MUSTER_ASSERT(over(), "a round has an outcome once it is over");
  if (failed_) return RoundOutcome::failed;
  if (ordered_) {
    // An order that came when every worker had already succeeded changes nothing.
    for (const Slot& worker : slots_)
      if (!worker.ended || worker.after_stop || !worker.status.success()) return RoundOutcome::stopped;
  }
  return RoundOutcome::succeeded;
}

WorkerOutcome WorkerGroup::worker_outcome(int local_rank) const {
  const Slot& worker = slot(local_rank);
  if (!worker.started) return WorkerOutcome::not_started;
  if (!worker.ended) return WorkerOutcome::stopped_by_us;
  if (!worker.after_stop)
    return worker.status.success() ? WorkerOutcome::succeeded : WorkerOutcome::failed_by_itself;
  // A worker that exits with a code of its own ended by us, too: that is how it answers the signal.
  const int by = worker.status.value;
  const bool ours = worker.status.kind == ExitStatus::Kind::exited || by == SIGKILL || by == SIGTERM ||
                    by == SIGINT || std::find(sent_.begin(), sent_.end(), by) != sent_.end();
  return ours ? WorkerOutcome::stopped_by_us : WorkerOutcome::failed_by_itself;
}

int WorkerGroup::signal_before_end(int local_rank) const {
  const Slot& worker = slot(local_rank);
  return worker.ended && worker.after_stop ? worker.stop_signal : 0;
}

}  // namespace muster::agent
