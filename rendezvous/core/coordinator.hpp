// SPDX-License-Identifier: Apache-2.0
// The one place that decides about rounds: events and `now` in, effects out. Pure; the shell (server/
// coordinator_service) performs the effects in order.
#pragma once

#include "rendezvous/core/membership.hpp"
#include "rendezvous/core/restart_policy.hpp"
#include "rendezvous/core/round.hpp"
#include "rendezvous/protocol/message.hpp"

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

namespace muster::rendezvous {

struct CoordinatorOptions {
  std::string run_id{};
  /// Drawn anew for each run, so that a peer of an earlier one is refused. Empty: not compared.
  std::string nonce{};
  /// Our own, for texts.
  std::string software{};
  RoundLimits round{};
  MembershipLimits membership{};
  /// Restarts of the whole job for a failed or lost node. Default: as many as there are failures.
  int max_restarts = std::numeric_limits<int>::max();
  RestartRule restart_rule = RestartRule::backoff;
  /// Nodes that are being started, in the order of their places: who is missing can then be named.
  std::vector<NodeName> expected_nodes{};
};

/// Of the job `run_id` with these limits; all else as it is by default.
CoordinatorOptions options_for_job(std::string run_id, std::string software, const JobLimits& limits);

/// How a connection ended.
enum class Ending {
  closed,  ///< by the peer: its process has ended, so what it had is lost now
  broken,  ///< reset, or timed out: the process may live and come back over another connection
};

namespace effect {

struct Send {
  SessionId session;
  Message message;
};

/// End the session, and its connection after what was sent to it. No on_disconnect() is wanted for it.
struct Disconnect {
  SessionId session;
};

/// Open an empty store; answer with on_store_opened() or on_store_failed().
struct OpenStore {
  RoundNumber round;
};

/// Close the store of the round and cut its connections.
struct CloseStore {
  RoundNumber round;
};

/// Call on_timer() at `at`; replaces an earlier one. Calling it early does no harm.
struct SetTimer {
  TimePoint at;
};

/// Something people may want to read in the log; a warning is for those who have not asked for more.
struct Note {
  std::string text;
  bool warning = false;
};

/// The job is over; nothing is accepted any more. At most once.
struct EndJob {
  std::string reason;
  /// As everybody has been told.
  JobClosed verdict;
};

}  // namespace effect

using Effect = std::variant<effect::Send, effect::Disconnect, effect::OpenStore, effect::CloseStore,
                            effect::SetTimer, effect::Note, effect::EndJob>;
using Effects = std::vector<Effect>;

/// Invariants (tests/sim checks them): at most one round has a store; the store of a round opens only when no
/// worker of an earlier round can be alive (its node has left the round, or is dead or disconnected); every
/// node of a completed round gets exactly one result; ranks are contiguous per node and unique; all nodes of
/// a round that ends are told alike whether another follows, and it does not begin before the delay that they
/// are told; the job has one verdict; restarts never exceed max_restarts.
class Coordinator {
 public:
  explicit Coordinator(CoordinatorOptions options);

  /// Where a new connection comes from ("10.0.0.2:40000"), for texts; before its hello. Need not be called.
  void on_connect(SessionId session, const std::string& address);

  /// A new connection that comes from the coordinator's own host, before its hello. The coordinator goes when
  /// that node does, and so the job ends with it. At most once; without it (a daemon) no node is such.
  void on_own_host(SessionId session) { own_session_ = session; }

  Effects on_message(SessionId session, const Message& message, TimePoint now);
  /// Something came that is not the coordinator's business, and a sign of life all the same.
  Effects on_heard(SessionId session, TimePoint now);
  /// `reason` is for people: "connection closed". A session that is only broken is still sent to (the shell
  /// keeps what is sent for on_resume()) until on_resume(), or a Disconnect when its silence has been judged.
  Effects on_disconnect(SessionId session, const std::string& reason, TimePoint now,
                        Ending ending = Ending::closed);

  /// The session that a hello on a new connection goes on with; none: give the hello to on_message().
  std::optional<SessionId> resumes(const Hello& hello) const;
  /// The new connection of resumes(), from `address`, carries the session from now on; an older one that is
  /// still open is to be cut. The first effect is HelloOk, in which the shell states `received`.
  Effects on_resume(SessionId session, const std::string& address, TimePoint now);

  Effects on_store_opened(RoundNumber round, const Endpoint& endpoint, TimePoint now);
  /// `text` says what failed and what to do; it is sent as it is to every node that waits for the round.
  Effects on_store_failed(RoundNumber round, const std::string& text, TimePoint now);
  Effects on_timer(TimePoint now);

  /// Ends the job from outside, as a failure: everybody is told. Nothing, if it is over.
  Effects close(const std::string& reason, TimePoint now);

  /// The job as it is, without its uptime.
  JobStatus status(TimePoint now) const;

  /// Nodes that are in, those whose connection is broken included; and without them.
  int nodes() const { return members_.nodes(); }

  int connected_nodes() const { return members_.connected_nodes(); }

  /// The sessions of a node and of the launcher, so long as they are in (broken ones too).
  std::optional<SessionId> session_of(const NodeName& node) const;
  std::optional<SessionId> launcher_session() const;

  /// Whose session it is; null before its hello. Valid until the next event.
  const Member* member(SessionId session) const { return members_.find(session); }

  /// Whether the node of this session may have workers in the round that runs.
  bool in_running_round(SessionId session) const;

 private:
  /// The round that has places: from its completion until no worker of it can be alive.
  struct Active {
    enum class Stage { opening, running, over };
    RoundNumber number = 0;
    Stage stage = Stage::opening;
    /// When its nodes got their places.
    TimePoint began{};
    std::vector<Seat> seats;
    /// Nodes that may have live workers.
    std::unordered_set<NodeName> present;
    /// Nodes that have left with success and wait for what becomes of the others.
    std::unordered_set<NodeName> waiting;
    /// Judged by what the nodes say when they leave: a round that is ended for a newcomer's sake when its
    /// nodes have just finished is still a success.
    bool all_succeeded = true;
    /// What everybody was told when it ended.
    RoundEnd end;
  };

  void admit(SessionId session, const Hello& hello, TimePoint now);
  void dispatch(Member& member, const Message& message, TimePoint now);
  void handle(Member& member, const Join& join, TimePoint now);
  void handle(Member& member, const FailRound& fail, TimePoint now);
  void handle(Member& member, const LeaveRound& leave, TimePoint now);
  void handle(Member& member, const Heartbeat& heartbeat, TimePoint now);
  void handle(Member& member, const NodeState& state, TimePoint now);
  void node_ended(const NodeState& state, TimePoint now);
  void handle(Member& member, const LauncherState& request, TimePoint now);

  // Of the shell; that they came is a sign of life.
  void handle(Member&, const Vouched&, TimePoint) {}

  void handle(Member&, const ChannelOpen&, TimePoint) {}

  template <typename Unexpected>
  void handle(Member& member, const Unexpected& message, TimePoint now);

  std::optional<Membership::Refusal> refusal_of(const Hello& hello) const;
  std::optional<ErrorReply> refusal_of(const Member& member, const Join& join) const;
  std::optional<std::string> contradiction(const Member& member, const Join& join) const;
  bool takes_part(const NodeName& node, RoundNumber round) const;
  NextStep next_step(const NodeName& node, RoundOutcome outcome);
  Left answer_to(const LeaveRound& leave, NextStep next, bool by_order) const;
  void judge_silence(TimePoint now);
  void forget(const Member& member, bool dead, const std::string& reason, TimePoint now);
  void forget_launcher(const std::string& reason, TimePoint now);
  void lose(const Member& member, const std::string& reason, TimePoint now);
  void close_for(const RoundEnd& loss);

  bool enough_nodes(int nodes) const;
  void decide_restart(RoundEnd& end, EndedRound& ended, TimePoint now);
  void end_round(RoundEnd end, TimePoint now, EndedRound ended = {});
  void fall_short();
  void end_job(JobClosed verdict);
  void close(JobClosed verdict);
  void depart(const NodeName& node);
  void abandon_opening();
  std::string remark(const NodeName& node, TimePoint now) const;
  Status forming_status(TimePoint now) const;

  Round::Previous previous() const;
  void advance(TimePoint now);
  void complete_round();
  void time_out(TimePoint now);
  void check_nodes();
  void tell_status(TimePoint now);
  void schedule();
  Effects finish(TimePoint now);

  void send(SessionId session, Message message);
  void send(const NodeName& node, Message message);
  void refuse(SessionId session, Errc code, std::string about, std::string text);

  CoordinatorOptions options_;
  Membership members_;
  Round forming_;
  std::optional<Active> active_;
  std::optional<JobClosed> job_over_;
  /// If the job ends for want of another round, this was the cause.
  std::optional<JobClosed> last_failure_;
  std::optional<JobClosed> last_loss_;
  RestartPolicy restart_policy_;
  /// What each node's last leave_round was answered, for a repeated one.
  std::unordered_map<NodeName, Left> last_left_;

  /// The settings of the first node that joined, by which the others' are judged.
  struct Settings {
    NodeName node;
    std::string title;
    std::map<std::string, std::string> values;
  };

  std::optional<Settings> settings_;

  /// What the launcher says of a node that has not joined.
  struct State {
    std::string text;
    bool ago = false;
    TimePoint since;
  };

  std::unordered_map<NodeName, State> states_;
  /// Nodes that the launcher expected, and has lost before they came; and why.
  std::unordered_map<NodeName, std::string> given_up_;
  /// Hosts of nodes that the job has lost since its last round, and since when.
  std::map<std::string, TimePoint> gone_;
  std::unordered_map<SessionId, std::string> addresses_;
  std::optional<SessionId> own_session_;
  /// Of that session; empty: none has said hello.
  NodeName own_node_;
  bool launcher_known_ = false;
  TimePoint launcher_gone_since_{};
  /// Who has just joined: told the status at once; the others once a second.
  std::optional<NodeName> newcomer_;
  int told_at_once_ = 0;
  bool status_changed_ = false;
  TimePoint next_status_{};
  std::optional<TimePoint> armed_;
  Effects effects_;
};

/// To a node that the launcher has lost while its agent lives.
std::string given_up_text(const std::string& title, const std::string& reason);

}  // namespace muster::rendezvous
