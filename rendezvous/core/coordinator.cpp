// SPDX-License-Identifier: Apache-2.0
// Handles who is in the job: hellos, broken connections, silence. Requests of members are in
// coordinator_requests.cpp, their effects on the rounds in coordinator_rounds.cpp.
#include "rendezvous/core/coordinator.hpp"

#include "rendezvous/base/exit_code.hpp"

#include <algorithm>
#include <utility>

namespace muster::rendezvous {
namespace {

/// Whether only a node may send `message`; the launcher takes part in no round.
bool for_nodes(const Message& message) {
  return std::holds_alternative<Join>(message) || std::holds_alternative<FailRound>(message) ||
         std::holds_alternative<LeaveRound>(message) || std::holds_alternative<RankHealth>(message);
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)),
      members_(options_.membership),
      forming_(0, options_.limits, options_.only_expected),
      hang_watch_(options_.limits.hang_timeout),
      restart_policy_(options_.limits) {
  std::size_t place = 0;
  for (const NodeName& node : options_.expected_nodes) forming_.expect(node, place++);
}

void Coordinator::on_connect(SessionId session, const std::string& address) {
  addresses_[session] = address;
}

Effects Coordinator::on_message(SessionId session, const Message& message, TimePoint now) {
  if (Member* member = members_.find(session)) {
    member->last_seen = now;
    if (member->role == Role::launcher && for_nodes(message))
      refuse(session, Errc::mend, std::string(type_name(message)), "the launcher takes part in no round");
    else
      dispatch(*member, message, now);
  } else if (const auto* hello = std::get_if<Hello>(&message)) {
    admit(session, *hello, now);
  } else {
    refuse(session, Errc::mend, std::string(type_name(message)),
           "the first control message must be hello, not " + std::string(type_name(message)));
    effects_.emplace_back(effect::Disconnect{session});
  }
  return finish(now);
}

Effects Coordinator::on_heard(SessionId session, TimePoint now) {
  if (Member* member = members_.find(session)) member->last_seen = now;
  return finish(now);
}

Effects Coordinator::on_disconnect(SessionId session, const std::string& reason, TimePoint now,
                                   Ending ending) {
  addresses_.erase(session);
  if (const Member* found = members_.find(session)) {
    const Member member = *found;
    if (ending == Ending::closed || !member.ended.empty() || !members_.detach(session, now))
      forget(member, false, ending == Ending::closed || member.ended.empty() ? reason : member.ended, now);
    else
      effects_.emplace_back(effect::Note{member.title_with_host() + ": " + reason +
                                         "; it may come back until it has been silent for " +
                                         std::to_string(options_.membership.dead_after.count()) + " ms"});
  }
  return finish(now);
}

Effects Coordinator::on_timer(TimePoint now) {
  armed_.reset();
  judge_silence(now);
  return finish(now);
}

std::optional<Membership::Refusal> Coordinator::refusal_of(const Hello& hello) const {
  using Refusal = Membership::Refusal;
  const std::string who = title_of(hello);
  const std::string version = other_version(hello, "this coordinator", options_.software);
  if (!version.empty()) return Refusal{Errc::upgrade, version};
  if (hello.role == Role::observer)
    return Refusal{Errc::mend, "this is the coordinator of job '" + options_.run_id +
                                   "', not a daemon that could be asked for its status"};
  if (hello.run_id != options_.run_id)
    return Refusal{Errc::mend, who + " belongs to job '" + hello.run_id + "', this coordinator serves job '" +
                                   options_.run_id + "'; end the agent of the other job"};
  if (!hello.nonce.empty() && hello.nonce != options_.nonce)
    return Refusal{Errc::job_over, who + " belongs to an earlier run of job '" + hello.run_id +
                                       "', which is over; end its agent and start it anew"};
  if (job_over_) return Refusal{Errc::job_over, "the job is over: " + job_over_->reason};
  const auto given_up = given_up_.find(hello.node);
  if (hello.role == Role::node && given_up != given_up_.end())
    return Refusal{Errc::job_over, given_up_text(who, given_up->second)};
  if (hello.session != 0)
    return Refusal{Errc::job_over, "the session of " + who +
                                       " has ended, because its connection was broken for too long; stop "
                                       "its workers and start its agent anew"};
  return std::nullopt;
}

void Coordinator::admit(SessionId session, const Hello& hello, TimePoint now) {
  std::optional<Membership::Refusal> refusal = refusal_of(hello);
  if (!refusal) {
    Member newcomer;
    newcomer.name = hello.node;
    newcomer.session = session;
    newcomer.incarnation = hello.incarnation;
    newcomer.role = hello.role;
    newcomer.host = hello.host;
    if (const auto address = addresses_.find(session); address != addresses_.end())
      newcomer.address = address->second;
    refusal = members_.admit(std::move(newcomer), now);
  }
  addresses_.erase(session);
  if (refusal) {
    refuse(session, refusal->code, "hello", refusal->text);
    effects_.emplace_back(effect::Disconnect{session});
    return;
  }
  gone_.erase(hello.host);
  if (own_session_ == session) own_node_ = hello.node;
  launcher_known_ = launcher_known_ || hello.role == Role::launcher;
  send(session, HelloOk{std::min(hello.version_max, kProtocolVersionMax), options_.run_id, options_.nonce,
                        session, 0, options_.software});
}

std::optional<SessionId> Coordinator::resumes(const Hello& hello) const {
  const Member* member = hello.role == Role::launcher ? members_.launcher() : members_.find(hello.node);
  const bool same = member != nullptr && member->incarnation == hello.incarnation &&
                    hello.run_id == options_.run_id && hello.version_max >= kProtocolVersionMin &&
                    hello.version_min <= kProtocolVersionMax;
  if (!same || (!hello.nonce.empty() && hello.nonce != options_.nonce)) return std::nullopt;
  // A peer whose connection broke before it got our hello_ok does not know its session.
  const bool fits = hello.session == 0 ? hello.received == 0 : hello.session == member->session;
  return fits ? std::optional<SessionId>(member->session) : std::nullopt;
}

Effects Coordinator::on_resume(SessionId session, const std::string& address, TimePoint now) {
  if (const Member* member = members_.find(session)) {
    if (member->detached) {
      const auto away = std::chrono::duration_cast<Milliseconds>(now - *member->detached);
      effects_.emplace_back(
          effect::Note{member->title_with_host() + " is back after " + std::to_string(away.count()) + " ms"});
    }
    members_.attach(session, address, now);
    effects_.emplace(effects_.begin(),
                     effect::Send{session, HelloOk{kProtocolVersionMax, options_.run_id, options_.nonce,
                                                   session, 0, options_.software}});
  }
  return finish(now);
}

std::optional<SessionId> Coordinator::session_of(const NodeName& node) const {
  const Member* member = members_.find(node);
  return member == nullptr ? std::nullopt : std::optional<SessionId>(member->session);
}

std::optional<SessionId> Coordinator::launcher_session() const {
  const Member* member = members_.launcher();
  return member == nullptr ? std::nullopt : std::optional<SessionId>(member->session);
}

bool Coordinator::in_running_round(SessionId session) const {
  const Member* member = members_.find(session);
  return member != nullptr && member->role == Role::node && active_ && active_->running() &&
         active_->has(member->name);
}

void Coordinator::judge_silence(TimePoint now) {
  const std::optional<TimePoint> due = members_.next_tick();
  if (!due || now < *due) return;
  const Membership::Verdicts verdicts = members_.tick(now);
  for (const Member& member : verdicts.suspect)
    effects_.emplace_back(effect::Note{member.title_with_host() + " has not been heard for " +
                                           std::to_string(options_.membership.suspect_after.count()) +
                                           " ms; it counts as lost after " +
                                           std::to_string(options_.membership.dead_after.count()) + " ms",
                                       true});
  for (const Member& member : verdicts.recovered)
    effects_.emplace_back(effect::Note{member.title_with_host() + " is heard again", true});
  for (const Member& member : verdicts.dead) {
    const std::string reason = "silent for " + std::to_string(options_.membership.dead_after.count()) + " ms";
    refuse(member.session, Errc::job_over, "", member.title() + " was declared dead: " + reason);
    effects_.emplace_back(effect::Disconnect{member.session});
    forget(member, true, reason, now);
  }
}

void Coordinator::forget(const Member& member, bool dead, const std::string& reason, TimePoint now) {
  members_.remove(member.session, dead);
  if (member.role == Role::launcher) {
    forget_launcher(reason, member.detached.value_or(dead ? member.last_seen : now));
    return;
  }
  last_left_.erase(member.name);
  if (forming_.has(member.name)) status_changed_ = true;
  forming_.withdraw(member.name);
  forming_.expect_no_more(member.name);
  if (stated_ && stated_->node == member.name && !active_ && forming_.joined() == 0) stated_.reset();
  lose(member, reason, now);
}

void Coordinator::forget_launcher(const std::string& reason, TimePoint now) {
  launcher_gone_since_ = now;
  if (!job_over_) effects_.emplace_back(effect::Note{"the launcher is gone: " + reason});
}

/// Draws the consequences of a node's loss for the round and the job.
void Coordinator::lose(const Member& member, const std::string& reason, TimePoint now) {
  RoundEnd end;
  end.cause = RoundEndCause::node_lost;
  end.node = member.name;
  end.host = member.host;
  end.exit_code = kExitLauncherFailure;
  end.text = member.title_with_host() + " is lost: " + reason;
  last_loss_ = JobClosed{end.text, false, end.exit_code, end.node, end.host, end.rank};
  if (last_failure_ && previous() != Round::Previous::running) gone_[member.host] = now;
  // Every node has been told already that no other round follows this one.
  const bool known = active_ && active_->over() && !active_->told().again;
  const bool in_round = active_ && active_->has(member.name);
  const bool ends_round = in_round && active_->running();
  if (active_) active_->wait_no_more(member.name);
  if (in_round && !job_over_) effects_.emplace_back(effect::Note{end.text});
  if (own_node_ == member.name && !known && !ends_round) close_for(end);
  if (!in_round || !active_) return;
  // Nobody knows yet of a round whose store is not open, so the round forms again once the store has opened
  // or failed.
  if (active_->opening()) return active_->depart(member.name);
  end_round(std::move(end), now);
  fall_short();
  depart(member.name);
}

void Coordinator::send(SessionId session, Message message) {
  effects_.emplace_back(effect::Send{session, std::move(message)});
}

void Coordinator::send(const NodeName& node, Message message) {
  if (const Member* member = std::as_const(members_).find(node)) send(member->session, std::move(message));
}

void Coordinator::refuse(SessionId session, Errc code, std::string about, std::string text) {
  send(session, ErrorReply{code, std::move(about), std::move(text)});
}

}  // namespace muster::rendezvous
