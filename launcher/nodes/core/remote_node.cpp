// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/core/remote_node.hpp"

#include "agent/core/exit_status.hpp"
#include "launcher/nodes/core/node_words.hpp"
#include "launcher/start/core/start_queue.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/invariant.hpp"

#include <algorithm>
#include <chrono>

namespace muster::launcher {
namespace {

using Phase = RemoteNode::Phase;
using Event = RemoteNode::Event;
using Action = RemoteNode::Action;
using Teller = HostFailure::Teller;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Row {
  Event event;
  Phase phase;
  Phase next;
  Action action;
};

/// An event that has no row for a phase does not fit there.
constexpr Row kRows[] = {
    {Event::turn, Phase::waiting, Phase::starting, Action::none},
    {Event::refused, Phase::starting, Phase::waiting, Action::none},
    {Event::failed, Phase::starting, Phase::over, Action::fail_start},
    {Event::greeting, Phase::starting, Phase::connected, Action::none},
    {Event::failed, Phase::connected, Phase::over, Action::fail_start},
    {Event::hello, Phase::connected, Phase::greeted, Action::none},
    {Event::orders, Phase::greeted, Phase::working, Action::send_spec},
    {Event::failed, Phase::working, Phase::over, Action::fail_start},

    {Event::report, Phase::working, Phase::reported, Action::none},
    {Event::report, Phase::relaying, Phase::reported, Action::none},
    {Event::report, Phase::relayed, Phase::reported, Action::none},

    {Event::lost_way, Phase::working, Phase::cut_off, Action::seek_way},
    {Event::lost_way, Phase::cut_off, Phase::cut_off, Action::seek_way},
    {Event::new_way, Phase::cut_off, Phase::relaying, Action::none},
    {Event::carried, Phase::relaying, Phase::relayed, Action::none},
    {Event::carried, Phase::reported, Phase::reported, Action::none},

    {Event::stop, Phase::waiting, Phase::over, Action::none},
    {Event::stop, Phase::starting, Phase::starting, Action::cut},
    {Event::stop, Phase::connected, Phase::connected, Action::cut},
    {Event::stop, Phase::greeted, Phase::greeted, Action::cut},
    {Event::stop, Phase::working, Phase::working, Action::stop},
    {Event::stop, Phase::cut_off, Phase::cut_off, Action::stop},
    {Event::stop, Phase::relaying, Phase::relaying, Action::stop},
    {Event::stop, Phase::relayed, Phase::relayed, Action::stop},

    {Event::ended, Phase::connected, Phase::over, Action::fail_start},
    {Event::ended, Phase::greeted, Phase::over, Action::fail_start},
    {Event::ended, Phase::working, Phase::over, Action::lose},
    {Event::ended, Phase::cut_off, Phase::over, Action::lose},
    {Event::ended, Phase::relaying, Phase::over, Action::lose},
    {Event::ended, Phase::relayed, Phase::over, Action::lose},
    {Event::ended, Phase::reported, Phase::over, Action::finish},
};

/// Longest time from the coordinator's orders to its listening socket, which usually takes milliseconds.
constexpr seconds kListensWithin{15};
/// Time for a client to end after we have closed its link.
constexpr milliseconds kClientLateAfter{2000};
/// Time for a client to end after a second Ctrl-C, when everything has to be over within a second.
constexpr milliseconds kClientLateInAHurry{200};
/// Time for a link to end after its client, since somebody else may hold the client's streams open.
constexpr seconds kLinkLateAfter{1};
/// Time between the end of the coordinator and a node's report.
constexpr seconds kStragglerLateAfter{5};
/// Time for the last words of a node that the coordinator holds for dead, which may still come.
constexpr milliseconds kDeadLateAfter{1000};
/// Time for the report of such a node if the job goes on: the node may be alive.
constexpr milliseconds kLostLateAfter{3000};
/// How often a relay is asked for while the way to the coordinator is being made.
constexpr milliseconds kAskForRelayEvery{100};
/// Longest time from a line on stderr to the end that it is the cause of.
constexpr seconds kSaidAtTheEnd{2};

/// Returns megabytes with one decimal.
std::string megabytes(std::uint64_t bytes) {
  const std::uint64_t tenths = (bytes + 50000) / 100000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

}  // namespace

Action RemoteNode::take(Event event) {
  for (const Row& row : kRows) {
    if (row.event != event || row.phase != phase_) continue;
    phase_ = row.next;
    if (phase_ == Phase::over) due_ = listen_by_ = std::nullopt;
    return row.action;
  }
  return Action::unexpected;
}

void RemoteNode::start(TimePoint now, Milliseconds limit) {
  MUSTER_ASSERT(take(Event::turn) != Action::unexpected, "only a node that waits for its turn is started");
  ++attempts_;
  started_at_ = now;
  note_.clear();
  due_ = now + limit;
}

void RemoteNode::copying(std::uint64_t bytes, std::uint64_t of, TimePoint now) {
  note_ = "copying muster: " + megabytes(bytes) + " of " + megabytes(of) + " MB";
  // A node that is late already, or is being ended, gets no new deadline.
  if (due_ && !severed_) due_ = now + kCopyLateAfter;
}

void RemoteNode::refused(const std::string& cause) {
  take(Event::refused);
  note_ = cause;
  due_.reset();
}

void RemoteNode::greeting() {
  MUSTER_ASSERT(take(Event::greeting) != Action::unexpected, "a start has one greeting");
  link_open_ = true;
  due_.reset();
}

void RemoteNode::await_listening(TimePoint now) {
  listen_by_ = now + kListensWithin;
}

void RemoteNode::notice(const agent::LinkMessage& notice) {
  agent_gone_ = true;
  set_last_words(last_words_of(name_, notice), Teller::node);
}

void RemoteNode::said(const std::string& line, TimePoint now) {
  // A line that muster itself prints on the node while all goes on does not say why the node was lost.
  if (line.starts_with("muster: warning: ") || line.starts_with("muster: info: ")) return;
  said_ = shortened(without_our_beginning(line));
  said_at_ = now;
}

bool RemoteNode::misbehave(const std::string& what, TimePoint now) {
  if (std::exchange(severed_, true)) return false;
  agent_gone_ = true;
  link_open_ = false;
  due_ = now;
  set_last_words("it sent what no muster sends (" + shortened(what) + ")", Teller::launcher);
  return true;
}

void RemoteNode::hold_for_dead(const NodeLoss& loss, bool goes_on, TimePoint now) {
  if (severed_ || !awaits_report()) return;
  dead_ = loss;
  // Over a relay that has broken no last words come any more: this was what was waited for.
  const bool broken = !link_open_ && relays();
  const TimePoint due = broken ? now : now + (goes_on ? kLostLateAfter : kDeadLateAfter);
  due_ = std::min(due_.value_or(due), due);
}

void RemoteNode::coordinator_ended(TimePoint now) {
  if (!awaits_report() || due_) return;
  due_ = now + kStragglerLateAfter;
  if (last_words_.empty())
    set_last_words("its agent did not answer any more; the connection to it was cut", Teller::launcher);
}

bool RemoteNode::link_closed(TimePoint now, Milliseconds limit) {
  link_open_ = false;
  // The coordinator, which has just cut the way to the node, may be about to say why.
  const bool word_may_come = relays() && dead_.reason.empty();
  if (process_end_ && !word_may_come) return true;
  due_ = now + (word_may_come ? kDeadLateAfter : limit);
  return false;
}

bool RemoteNode::process_ended(const StartEnd& end, TimePoint now) {
  process_end_ = end;
  ended_at_ = now;
  if (!link_open_) return true;
  // The link may still hold what the process had written before.
  due_ = now + kLinkLateAfter;
  return false;
}

Action RemoteNode::conclude() {
  failure_ = how_lost();
  return take(agent_may_live() ? Event::lost_way : Event::ended);
}

/// Whether an agent that has not reported may be there without what led to it, so that a relay would find it.
bool RemoteNode::agent_may_live() const {
  if ((phase_ != Phase::working && phase_ != Phase::cut_off) || severed_ || agent_gone_) return false;
  // An agent that has lost its guardian has lost its end of the link, too, and has a report to send.
  if (guardian_ended()) return process_end_->exit_code > kExitSignalBase;
  return dead_.reason.empty();
}

void RemoteNode::seek_again(TimePoint now) {
  due_ = now + kAskForRelayEvery;
}

void RemoteNode::relay() {
  MUSTER_ASSERT(take(Event::new_way) != Action::unexpected, "only a lost way is replaced, and once");
  link_open_ = true;
  if (dead_.reason.empty()) due_.reset();
  said_.clear();
}

void RemoteNode::sever(TimePoint now, bool in_a_hurry) {
  link_open_ = false;
  severed_ = true;
  listen_by_.reset();
  due_ = now;
  if (!process_end_) *due_ += in_a_hurry ? kClientLateInAHurry : kClientLateAfter;
}

Action RemoteNode::tick(TimePoint now) {
  if (listen_by_ && now >= *listen_by_) {
    set_last_words("its guardian has had its orders for " + std::to_string(kListensWithin.count()) +
                       " s and has not answered; is it stopped there (ps -C muster:guardian)?",
                   Teller::launcher);
    return Action::cut;
  }
  if (!due_ || now < *due_) return Action::none;
  due_.reset();
  if (phase_ == Phase::starting) return Action::give_up_start;
  link_open_ = false;
  return Action::end_way;
}

std::optional<RemoteNode::TimePoint> RemoteNode::next_tick() const {
  return due_ && listen_by_ ? std::min(due_, listen_by_) : std::max(due_, listen_by_);
}

std::string RemoteNode::waiting_text(TimePoint now) const {
  if (phase_ >= Phase::greeted) return {};
  std::string text = name_ + " (";
  if (!note_.empty())
    text += note_;
  else if (phase_ == Phase::waiting)
    text += "its turn has not come";
  else
    text += "connecting for " +
            std::to_string(std::chrono::duration_cast<seconds>(now - started_at_).count()) + " s";
  if (attempts_ > 1) text += ", try " + std::to_string(attempts_);
  return text + ")";
}

void RemoteNode::set_last_words(std::string words, Teller by) {
  last_words_ = std::move(words);
  last_words_by_ = by;
}

HostFailure RemoteNode::how_lost() const {
  const StartEnd end = process_end_.value_or(StartEnd{});
  HostFailure failure;
  // The coordinator only knows that a connection has ended; the exit code says more.
  if (!agent_gone_ && guardian_ended() && end.exit_code > kExitSignalBase) {
    failure.cause = "guardian or agent there was killed by " +
                    agent::signal_name(end.exit_code - kExitSignalBase) + ", and neither could report";
    return failure;
  }
  const bool by_coordinator = !agent_gone_ && !dead_.reason.empty();
  failure.cause = by_coordinator ? dead_.reason : last_words_;
  if (!failure.cause.empty()) {
    failure.told_by = by_coordinator ? Teller::coordinator : last_words_by_;
    failure.says_decision = by_coordinator && dead_.says_decision;
    return failure;
  }
  if (ended_at_ - said_at_ < kSaidAtTheEnd) failure.cause = said_;
  if (!failure.cause.empty()) return failure;
  if (end.signal != 0)
    failure.cause = "what led there was killed by signal " + std::to_string(end.signal);
  else if (end.exit_code == 255)
    failure.cause = phase_ == Phase::relayed
                        ? "the way to it through the coordinator was lost, too"
                        : "agent and guardian there were killed, or the connection broke";
  else
    failure.cause = "the agent ended with exit code " + std::to_string(end.exit_code) + " without a report";
  failure.advice = "see whether the host is up and its log";
  return failure;
}

}  // namespace muster::launcher
