// SPDX-License-Identifier: Apache-2.0
#include "agent/round_events.hpp"

#include <algorithm>
#include <string>

namespace muster::agent {

void RoundEvents::begins(const rendezvous::RoundResult& place, const RoundRunner& runner, int workers) {
  runner_ = &runner;
  round_ = place.round;
  workers_ = workers;
  NodeEvent event;
  event.kind = NodeEvent::Kind::round;
  event.round = place.round;
  event.nodes = place.nodes;
  event.node_rank = place.node_rank;
  event.world_size = place.world_size;
  event.first_rank = place.first_rank;
  event.workers = workers;
  event.restarts = place.restarts;
  tell(event);
  look_for_step();
}

void RoundEvents::look_for_step() {
  if (reached_ == 0 || runner_ == nullptr) return;
  if (step_now() >= reached_) {
    NodeEvent event;
    event.kind = NodeEvent::Kind::caught_up;
    event.round = round_;
    event.step = reached_;
    return tell(event);
  }
  timer_.expires_after(kLookEach);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) look_for_step();
  });
}

std::uint64_t RoundEvents::step_now() const {
  std::uint64_t step = 0;
  for (int local_rank = 0; runner_ != nullptr && local_rank < workers_; ++local_rank)
    if (const auto slot = runner_->worker_now(local_rank).slot) step = std::max(step, slot->step);
  return step;
}

/// What was reached in this round counts for the next one, whose workers have pages of their own.
void RoundEvents::note_step() {
  reached_ = std::max(reached_, step_now());
}

void RoundEvents::failed(const rendezvous::FailRound& failure) {
  note_step();
  failure_ = failure;
  NodeEvent event;
  event.kind = NodeEvent::Kind::failure;
  event.round = failure.round;
  event.rank = failure.rank;
  event.exit_code = failure.exit_code;
  event.signal = failure.signal;
  event.text = failure.text;
  event.error_line = failure.error_line;
  event.step = reached_;
  tell(event);
}

void RoundEvents::tell(const NodeEvent& event) {
  link_.tell(LinkMessage::Kind::event, 0, to_json(event));
}

void RoundEvents::ended(const rendezvous::RoundEnd& end, bool again) {
  note_step();
  timer_.cancel();
  runner_ = nullptr;
  // After a success there is nothing to tell: the launcher knows the end of the job.
  if (!traits_.speaks_for_job || end.text.empty()) return;
  NodeEvent event;
  event.kind = NodeEvent::Kind::round_end;
  event.round = end.round;
  // A node that has ended the round by its own failure is told only what was decided.
  const bool is_ours = end.round == failure_.round && end.text == failure_.text;
  event.rank = is_ours ? failure_.rank : end.rank;
  event.exit_code = is_ours ? failure_.exit_code : end.exit_code;
  event.restarts = end.restarts;
  event.node = end.node;
  event.cause = name_of(end.cause);
  event.text = end.text;
  event.decision = end.decision;
  event.again = again;
  event.delay_ms = end.delay.count();
  event.step = reached_;
  tell(event);
}

void RoundEvents::notice(const rendezvous::JobNotice& notice) {
  if (!traits_.speaks_for_job) return;
  NodeEvent event;
  event.kind = notice.hang == rendezvous::HangLevel::none ? NodeEvent::Kind::moves : NodeEvent::Kind::hang;
  event.round = notice.round;
  event.text = notice.text;
  event.level = notice.hang;
  event.culprits = notice.culprits;
  event.still_ms = notice.still.count();
  tell(event);
}

}  // namespace muster::agent
