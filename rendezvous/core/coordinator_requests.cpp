// SPDX-License-Identifier: Apache-2.0
// Handles the requests of members that have said hello.
#include "rendezvous/core/coordinator.hpp"

#include <string>
#include <utility>

namespace muster::rendezvous {
namespace {

const std::string& host_of(const Member& member) {
  return member.host.empty() ? member.name : member.host;
}

/// The titles of a node and of another node, with their full names if both are on one host.
std::pair<std::string, std::string> told_apart(const Member& member, const NodeName& other,
                                               const std::string& other_title) {
  const std::string title = member.title_with_host();
  if (title == other_title) return {member.title(), "node " + other};
  return {title, other_title};
}

}  // namespace

std::string given_up_text(const std::string& title, const std::string& reason) {
  return "the launcher has given " + title + " up: " + reason + "; its agent ends";
}

void Coordinator::handle(Member& member, const Join& join, TimePoint) {
  if (!join.host.empty()) member.host = join.host;
  if (const auto refusal = refusal_of(member, join)) {
    send(member.session, *refusal);
    return;
  }
  // A join that is repeated while the store of its round opens needs no second answer.
  if (active_ && active_->has(member.name)) return;
  if (!stated_) stated_ = Stated{member.name, member.title_with_host(), join.settings};
  if (active_) active_->wait_no_more(member.name);
  forming_.join(member.name, join);
  states_.erase(member.name);
  newcomer_ = member.name;
  status_changed_ = true;
}

std::optional<ErrorReply> Coordinator::refusal_of(const Member& member, const Join& join) const {
  const auto error = [](Errc code, const std::string& text) { return ErrorReply{code, "join", text}; };
  if (job_over_) return error(Errc::job_over, "the job is over: " + job_over_->reason);
  if (active_ && !active_->opening() && active_->has(member.name))
    return error(Errc::mend, "node " + member.name + " is still in round " +
                                 std::to_string(active_->number()) + "; leave it before joining the next");
  const RoundNumber next = active_ && active_->opening() ? active_->number() : forming_.number();
  if (join.round != 0 && join.round < next)
    return error(Errc::rejoin,
                 "round " + std::to_string(join.round) + " is over; join round " + std::to_string(next));
  if (join.round > forming_.number())
    return error(Errc::mend, "round " + std::to_string(join.round) + " does not come next, round " +
                                 std::to_string(next) + " does; join that");
  if (!forming_.has(member.name) && join.workers > kMaxWorldSize - forming_.workers())
    return error(Errc::mend, "with node " + member.name + " the job would have more than " +
                                 std::to_string(kMaxWorldSize) + " workers; start fewer");
  if (const auto text = contradiction(member, join)) return error(Errc::mend, *text);
  return std::nullopt;
}

/// The text of a conflict between the wishes of this node and those of another node, if there is one.
std::optional<std::string> Coordinator::contradiction(const Member& member, const Join& join) const {
  const NodeName* holder = forming_.holder_of(join.node_rank);
  if (holder != nullptr && *holder != member.name) {
    const Member* other = members_.find(*holder);
    const auto [ours, theirs] =
        told_apart(member, *holder, other == nullptr ? "node " + *holder : other->title_with_host());
    return "node rank " + std::to_string(join.node_rank) + " is wanted by " + ours +
           " and already taken by " + theirs + "; give each node its own --node-rank";
  }
  if (!stated_ || stated_->settings == join.settings) return std::nullopt;
  const auto [ours, theirs] = told_apart(member, stated_->node, stated_->title);
  return difference(ours, join.settings, theirs, stated_->settings);
}

void Coordinator::handle(Member& member, const FailRound& fail, TimePoint now) {
  // This is late news of a round that has ended for another reason, which every node knows already.
  if (!takes_part(member.name, fail.round)) return;
  RoundEnd end;
  end.cause = RoundEndCause::node_failed;
  end.node = member.name;
  end.text = fail.text;
  end.exit_code = fail.exit_code;
  end.host = fail.host.empty() ? member.host : fail.host;
  end.rank = fail.rank;
  EndedRound ended;
  ended.signal = fail.signal;
  ended.error_line = fail.error_line;
  ended.stepped = fail.stepped;
  end_round(std::move(end), now, std::move(ended));
}

void Coordinator::handle(Member& member, const LeaveRound& leave, TimePoint now) {
  const NodeName node = member.name;
  if (!takes_part(node, leave.round)) {
    const auto left = last_left_.find(node);
    if (left != last_left_.end() && left->second.round == leave.round) {
      send(member.session, left->second);
    } else {
      refuse(member.session, Errc::rejoin, "leave_round",
             leave.round < forming_.number() ? "round " + std::to_string(leave.round) + " is over"
                                             : "round " + std::to_string(leave.round) + " has not begun");
    }
    return;
  }
  const bool by_order = leave.outcome == RoundOutcome::stopped && active_->running();
  if (leave.outcome != RoundOutcome::succeeded) {
    RoundEnd end;
    end.cause = by_order ? RoundEndCause::node_left : RoundEndCause::node_failed;
    end.node = node;
    end.host = member.host;
    end.exit_code = leave.exit_code;
    end.text = !leave.text.empty() ? leave.text
               : by_order          ? member.title_with_host() + " stopped its workers"
                                   : "a worker on " + member.title_with_host() + " failed";
    end_round(std::move(end), now);
    fall_short();
  }
  const NextStep next = by_order ? NextStep::end : next_step(node, leave.outcome);
  if (const Seat* seat = active_->seat_of(node); seat != nullptr && next == NextStep::wait)
    hang_watch_.ended(seat->first_rank, seat->workers, host_of(member), now);
  const Left answer = answer_to(leave, next, by_order);
  last_left_[node] = answer;
  send(member.session, answer);
  depart(node);
}

/// The answer to a leave_round. A node that ended the round itself learns the decision only from this answer;
/// a node that left on an order need not know it.
Left Coordinator::answer_to(const LeaveRound& leave, NextStep next, bool by_order) const {
  Left answer;
  answer.round = leave.round;
  answer.next = next;
  answer.restarts = restart_policy_.restarts();
  if (by_order || !active_->over()) return answer;
  answer.delay = active_->told().delay;
  answer.decision = active_->told().decision;
  return answer;
}

/// What a node does after it leaves the active round, whose end is known if it has ended.
NextStep Coordinator::next_step(const NodeName& node, RoundOutcome outcome) {
  if (job_over_) return NextStep::end;
  if (outcome == RoundOutcome::succeeded && active_->may_succeed()) {
    active_->wait(node);
    return NextStep::wait;
  }
  if (!active_->told().again) return NextStep::end;
  forming_.expect(node);
  return NextStep::join;
}

void Coordinator::handle(Member& member, const Heartbeat& heartbeat, TimePoint) {
  send(member.session, Heartbeat{heartbeat.sequence});
}

void Coordinator::handle(Member& member, const NodeState& state, TimePoint now) {
  if (member.role != Role::launcher) {
    refuse(member.session, Errc::mend, "node_state", "only the launcher says how far a node is");
    return;
  }
  if (state.ended) return node_ended(state, now);
  // News of a node that nobody waits for would be kept for ever.
  if (!forming_.expects(state.node)) return;
  if (state.text.empty())
    states_.erase(state.node);
  else
    states_[state.node] = State{state.text, state.ago, now};
  status_changed_ = true;
}

/// Handles the end of a node's guardian. If the node's connection is still open, the messages that it has
/// sent are heard first; the end of the connection follows at once. A node that the launcher cannot reach any
/// more is refused, whether it is in the job or has yet to come.
void Coordinator::node_ended(const NodeState& state, TimePoint now) {
  const auto session = session_of(state.node);
  const std::string text = state.text.empty() ? "its processes have ended" : state.text;
  if (!session) {
    if (!state.given_up || !forming_.expects(state.node)) return;
    given_up_[state.node] = text;
    forming_.expect_no_more(state.node);
    status_changed_ = true;
    return;
  }
  Member* node = members_.find(*session);
  node->ended = text;
  if (!node->detached && !state.given_up) return;
  const Member gone = *node;
  if (state.given_up) refuse(*session, Errc::job_over, "", given_up_text(gone.title(), text));
  effects_.emplace_back(effect::Disconnect{*session});
  forget(gone, state.given_up, text, now);
}

void Coordinator::handle(Member& member, const LauncherState&, TimePoint now) {
  LauncherState state;
  state.known = launcher_known_;
  const Member* launcher = members_.launcher();
  state.connected = launcher != nullptr && !launcher->detached && !launcher->suspect;
  if (launcher_known_ && !state.connected) {
    const TimePoint since = launcher == nullptr  ? launcher_gone_since_
                            : launcher->detached ? *launcher->detached
                                                 : launcher->last_seen;
    state.gone = std::chrono::duration_cast<Milliseconds>(now - since);
    state.ended = launcher == nullptr;
  }
  send(member.session, state);
}

void Coordinator::handle(Member& member, const RankHealth& health, TimePoint now) {
  // News of a round that is over, or of a rank that is not the node's, changes nothing.
  if (!takes_part(member.name, health.round) || !active_->running() ||
      !active_->has(member.name, health.rank))
    return;
  hang_watch_.tell(health, host_of(member), now);
}

void Coordinator::handle(Member& member, const RankPace& pace, TimePoint now) {
  if (!takes_part(member.name, pace.round) || !active_->running() || !active_->has(member.name, pace.rank))
    return;
  straggler_watch_.tell(pace, host_of(member), now);
}

void Coordinator::handle(Member& member, const HostNews& news, TimePoint now) {
  if (takes_part(member.name, news.round) && active_->running())
    hang_watch_.tell_host(host_of(member), news.text, now);
}

void Coordinator::handle(Member& member, const RankFlight& flight, TimePoint now) {
  if (takes_part(member.name, flight.round) && active_->running() &&
      active_->has(member.name, flight.record.rank))
    hang_watch_.tell_flight(flight.record, now);
}

template <typename Unexpected>
void Coordinator::handle(Member& member, const Unexpected& message, TimePoint) {
  const std::string type(type_name(Message(message)));
  refuse(member.session, Errc::mend, type,
         "a coordinator takes no '" + type + "' from a peer that has said hello");
}

/// This function stands in this file so that every handle() is defined where one is chosen.
void Coordinator::dispatch(Member& member, const Message& message, TimePoint now) {
  std::visit([this, &member, now](const auto& alternative) { handle(member, alternative, now); }, message);
}

}  // namespace muster::rendezvous
