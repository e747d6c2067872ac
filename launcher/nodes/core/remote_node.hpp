// SPDX-License-Identifier: Apache-2.0
// Keeps the life of one node, from its turn to be started to its last word: how far it has come, by when
// something must happen, and what was said of its end. Pure: events and the time go in, actions come out.
#pragma once

#include "agent/core/link_message.hpp"
#include "launcher/core/job_end.hpp"
#include "launcher/start/core/ssh_failure.hpp"
#include "rendezvous/protocol/ids.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace muster::launcher {

/// Why the coordinator holds a node for dead.
struct NodeLoss {
  std::string reason{};
  /// Whether `reason` says what was decided about a restart, because that ended the job.
  bool says_decision = false;
};

/// One node as its launcher sees it; the table in remote_node.cpp holds every transition. What a node says is
/// not trusted: what does not fit changes nothing, and is told as Action::unexpected. Used from one thread.
class RemoteNode {
 public:
  using TimePoint = rendezvous::TimePoint;
  using Milliseconds = rendezvous::Milliseconds;

  /// A node goes forwards only, but for a start that is tried again.
  enum class Phase : std::uint8_t {
    waiting,    ///< its turn to be started has not come, or will come again
    starting,   ///< what leads there was started, and its agent has not greeted
    connected,  ///< the agent has greeted, and there is a link
    greeted,    ///< the node's hello has come
    working,    ///< the node has its part of the job
    cut_off,    ///< what led there has ended, but the agent may live: another way to it is looked for
    relaying,   ///< the link leads through the coordinator, and has carried nothing there
    relayed,    ///< the link leads through the coordinator, and carries
    reported,   ///< the node's report has come
    over,       ///< the node is waited for no more
  };

  enum class Event : std::uint8_t {
    turn,      ///< what leads to the node is being started
    refused,   ///< the start failed in a way that passes
    failed,    ///< the start failed for good, the agent is of another version, or its part cannot be sent
    greeting,  ///< the agent has greeted
    hello,     ///< the node has said what it has
    orders,    ///< the node is to get its part of the job
    report,    ///< the node's report has come
    lost_way,  ///< link and what led there have ended, and the agent may live
    ended,     ///< link and what led there have ended
    new_way,   ///< the link goes on through the coordinator
    carried,   ///< something was acknowledged there
    stop,      ///< the job is to end
  };

  /// What is to be done with the node.
  enum class Action : std::uint8_t {
    none,
    unexpected,        ///< nothing, for the event does not fit
    send_spec,         ///< send the node its key and its part of the job
    send_coordinator,  ///< tell the node where the coordinator listens
    stop,              ///< ask for an orderly end, by a message
    kill,              ///< ask for an end without grace, by a message
    cut,               ///< close the link and end what leads there: the agent ends by itself
    give_up_start,     ///< end what leads there, because the agent has not greeted in time
    end_way,           ///< end what leads there, or conclude() if it has ended
    seek_way,          ///< ask for a way through the coordinator
    fail_start,        ///< note that the node could not be started
    lose,              ///< note that the node is lost
    finish,            ///< note that the node has done its part
  };

  explicit RemoteNode(std::string name) : name_(std::move(name)) {}

  /// Takes an event that brings nothing along.
  Action take(Event event);

  /// Takes the beginning of a start; the agent has to greet within `limit`.
  void start(TimePoint now, Milliseconds limit);
  /// Takes how much of a copy is on its way to a node that has no muster.
  void copying(std::uint64_t bytes, std::uint64_t of, TimePoint now);
  /// Takes a start that failed in a way that passes.
  void refused(const std::string& cause);
  /// Takes the agent's greeting, which opens the link.
  void greeting();
  /// Notes that the node, which has its part of the job, must tell where the coordinator listens.
  void await_listening(TimePoint now);

  /// Takes where the coordinator listens. False if nobody waits for that.
  bool listening() { return std::exchange(listen_by_, std::nullopt).has_value(); }

  /// Takes the guardian's last words, after which there is no agent.
  void notice(const agent::LinkMessage& notice);
  /// Takes a line of the client or of the agent's stderr.
  void said(const std::string& line, TimePoint now);
  /// Takes `what` the node sent that no muster sends: nothing of it counts any more. False if we had closed
  /// the link before.
  bool misbehave(const std::string& what, TimePoint now);
  /// Takes the coordinator's word that the node is dead: if it does not report soon, or its relay is broken,
  /// it is lost. `goes_on` says that the job may do so, and then there is more time for that report.
  void hold_for_dead(const NodeLoss& loss, bool goes_on, TimePoint now);
  /// Takes the end of the coordinator, which outlives every node that it still hears of.
  void coordinator_ended(TimePoint now);

  /// Takes whether what leads to the node is stopped. True if it was at the last look, too.
  bool client_stopped(bool stopped) { return std::exchange(client_stopped_, stopped) && stopped; }

  /// Takes the end of the link; what led to the node may outlive it for `limit`. True: conclude().
  bool link_closed(TimePoint now, Milliseconds limit);
  /// Takes the end of what led to the node, after the greeting. True: conclude().
  bool process_ended(const StartEnd& end, TimePoint now);
  /// Decides what it means that link and process have ended.
  Action conclude();
  /// Asks for a way through the coordinator again after a while.
  void seek_again(TimePoint now);
  /// Notes that the link goes on through the coordinator.
  void relay();

  /// Notes that we close the link, whose other end is to end what leads there soon, or at once.
  void sever(TimePoint now, bool in_a_hurry);

  /// Sees to it that something happens by then.
  void limit(TimePoint due) { due_ = due; }

  /// Does so if there is a limit, which is later.
  void shorten(TimePoint due) { due_ = due_ ? std::min(*due_, due) : due_; }

  /// Takes the time, and returns what became due.
  Action tick(TimePoint now);
  /// Returns when tick() is due next.
  std::optional<TimePoint> next_tick() const;

  /// Notes that the job has to do without the node.
  void fail() { failed_ = true; }

  /// Notes that we end the node, so that its end is no failure.
  void drop() { dropped_ = true; }

  const std::string& name() const { return name_; }

  Phase phase() const { return phase_; }

  /// Whether something was started for the node, which has not said hello.
  bool starts() const { return phase_ == Phase::starting || phase_ == Phase::connected; }

  /// Whether the node has its part of the job, and may be heard.
  bool instructed() const { return phase_ >= Phase::working && phase_ != Phase::over; }

  bool awaits_report() const { return phase_ >= Phase::working && phase_ < Phase::reported; }

  /// Whether we have closed the link: what still comes from the node does not count.
  bool severed() const { return severed_; }

  bool failed() const { return failed_; }

  bool dropped() const { return dropped_; }

  /// Whether the guardian has ended by all we know, not only what led there.
  bool guardian_ended() const { return process_end_ && !way_was_lost(*process_end_); }

  /// Returns how the node was lost, once conclude() has said so.
  const HostFailure& failure() const { return failure_; }

  /// Returns who is waited for, and why: "n07 (connecting for 4 s, try 2)". Empty after its hello.
  std::string waiting_text(TimePoint now) const;

 private:
  bool agent_may_live() const;

  /// Whether the link goes through the coordinator.
  bool relays() const { return phase_ == Phase::relaying || phase_ == Phase::relayed; }

  HostFailure how_lost() const;
  void set_last_words(std::string words, HostFailure::Teller by);

  std::string name_;
  Phase phase_ = Phase::waiting;
  int attempts_ = 0;
  TimePoint started_at_{};
  /// Why the node is waited for, in a few words; empty: there is nothing special about it.
  std::string note_;

  /// Time by which the node must have come further, or it is given up.
  std::optional<TimePoint> due_;
  /// Time by which it must say where the coordinator listens.
  std::optional<TimePoint> listen_by_;

  bool link_open_ = false;
  bool severed_ = false;
  bool client_stopped_ = false;
  bool agent_gone_ = false;
  bool failed_ = false;
  bool dropped_ = false;
  std::optional<StartEnd> process_end_;
  TimePoint ended_at_{};

  /// The cause of the node's end that its guardian gave, or that we saw.
  std::string last_words_;
  HostFailure::Teller last_words_by_ = HostFailure::Teller::node;
  /// The last line of the client or of the agent's stderr, which is the cause only if the end followed at
  /// once.
  std::string said_;
  TimePoint said_at_{};
  NodeLoss dead_;
  HostFailure failure_;
};

}  // namespace muster::launcher
