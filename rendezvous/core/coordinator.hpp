// SPDX-License-Identifier: Apache-2.0
// The one place that decides about rounds: events and `now` in, effects out. Pure; the shell (server/
// coordinator_service) performs the effects in order.
#pragma once

#include "rendezvous/core/hang_watch.hpp"
#include "rendezvous/core/membership.hpp"
#include "rendezvous/core/restart_policy.hpp"
#include "rendezvous/core/round.hpp"
#include "rendezvous/core/running_round.hpp"
#include "rendezvous/core/straggler_watch.hpp"
#include "rendezvous/protocol/message.hpp"

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

namespace muster::rendezvous {

struct CoordinatorOptions {
  std::string run_id{};
  /// A text drawn anew for each run, so that a peer of an earlier run is refused. Empty: not compared.
  std::string nonce{};
  /// The version of this software, for texts.
  std::string software{};
  JobLimits limits{};
  MembershipLimits membership{};
  /// The nodes that are being started, in the order of their places, so that texts can name the missing ones.
  std::vector<NodeName> expected_nodes{};
  /// Whether no other node than those can come.
  bool only_expected = false;
};

/// How a connection ended.
enum class Ending {
  closed,  ///< the peer closed the connection: its process has ended and cannot come back
  broken,  ///< the connection was reset or timed out: the process may live and come back over another one
};

namespace effect {

struct Send {
  SessionId session;
  Message message;
};

/// End the session; its connection ends after everything that was sent. The shell need not call
/// on_disconnect() for it.
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

/// Ask the store of the round who waits for which key, and tell each wait to the nodes from whose hosts the
/// connection may come (KeyWait).
struct AskStore {
  RoundNumber round;
};

/// Call on_timer() at `at`; replaces an earlier request. An early call does no harm.
struct SetTimer {
  TimePoint at;
};

/// A text that people may want to read in the log; a warning is shown even to those who have not asked for
/// more.
struct Note {
  std::string text;
  bool warning = false;
};

/// The job is over, and no message is accepted any more. At most once.
struct EndJob {
  std::string reason;
  /// The verdict that every member has been told.
  JobClosed verdict;
};

}  // namespace effect

using Effect = std::variant<effect::Send, effect::Disconnect, effect::OpenStore, effect::CloseStore,
                            effect::AskStore, effect::SetTimer, effect::Note, effect::EndJob>;
using Effects = std::vector<Effect>;

/// Decides about the rounds of one job. Invariants (tests/sim checks them): at most one round has a store;
/// the store of a round opens only when no worker of an earlier round can be alive (its node has left the
/// round, or is dead or disconnected); every node of a completed round gets exactly one result; ranks are
/// contiguous per node and unique; all nodes of a round that ends are told the same about whether another
/// round follows, and that round does not begin before the delay that they are told; the job has one verdict;
/// restarts never exceed max_restarts.
class Coordinator {
 public:
  explicit Coordinator(CoordinatorOptions options);

  /// Tells where a new connection comes from ("10.0.0.2:40000"), for texts; before its hello. Optional.
  void on_connect(SessionId session, const std::string& address);

  /// Tells that a new connection, before its hello, comes from the coordinator's own host. The coordinator
  /// ends with that node, and so does the job. At most once; without this call (in a daemon) the job ends
  /// with no node in particular.
  void on_own_host(SessionId session) { own_session_ = session; }

  Effects on_message(SessionId session, const Message& message, TimePoint now);
  /// Tells that the peer sent something that is not for the coordinator, which still shows that the peer
  /// lives.
  Effects on_heard(SessionId session, TimePoint now);
  /// Tells that a connection has ended. `reason` is for people: "connection closed". A session that is only
  /// broken is still sent to (the shell keeps the messages for on_resume()) until on_resume(), or until a
  /// Disconnect when its silence has been judged.
  Effects on_disconnect(SessionId session, const std::string& reason, TimePoint now,
                        Ending ending = Ending::closed);

  /// The session that a hello on a new connection continues; none: give the hello to on_message().
  std::optional<SessionId> resumes(const Hello& hello) const;
  /// Tells that the new connection of resumes(), from `address`, carries the session from now on; an older
  /// connection that is still open is to be cut. The first effect is HelloOk, in which the shell sets
  /// `received`.
  Effects on_resume(SessionId session, const std::string& address, TimePoint now);

  Effects on_store_opened(RoundNumber round, const Endpoint& endpoint, TimePoint now);
  /// Tells that the store could not be opened. `text` says what failed and what to do; every node that waits
  /// for the round gets it unchanged.
  Effects on_store_failed(RoundNumber round, const std::string& text, TimePoint now);
  Effects on_timer(TimePoint now);

  /// Ends the job from outside, as a failure, and tells everybody. Does nothing if the job is over.
  Effects close(const std::string& reason, TimePoint now);

  /// The state of the job, without its uptime.
  JobStatus status(TimePoint now) const;

  /// The number of nodes in the job, those with a broken connection included; connected_nodes() leaves those
  /// out.
  int nodes() const { return members_.nodes(); }

  int connected_nodes() const { return members_.connected_nodes(); }

  /// The sessions of a node and of the launcher, as long as they are in the job, even with a broken
  /// connection.
  std::optional<SessionId> session_of(const NodeName& node) const;
  std::optional<SessionId> launcher_session() const;

  /// The member that has this session; null before its hello. Valid until the next event.
  const Member* member(SessionId session) const { return members_.find(session); }

  /// Whether the node of this session may have workers in the round that runs.
  bool in_running_round(SessionId session) const;

 private:
  void admit(SessionId session, const Hello& hello, TimePoint now);
  void dispatch(Member& member, const Message& message, TimePoint now);
  void handle(Member& member, const Join& join, TimePoint now);
  void handle(Member& member, const FailRound& fail, TimePoint now);
  void handle(Member& member, const LeaveRound& leave, TimePoint now);
  void handle(Member& member, const Heartbeat& heartbeat, TimePoint now);
  void handle(Member& member, const NodeState& state, TimePoint now);
  void node_ended(const NodeState& state, TimePoint now);
  void handle(Member& member, const LauncherState& request, TimePoint now);
  void handle(Member& member, const RankHealth& health, TimePoint now);
  void handle(Member& member, const RankPace& pace, TimePoint now);
  void handle(Member& member, const HostNews& news, TimePoint now);
  void handle(Member& member, const RankFlight& flight, TimePoint now);

  // These messages are for the shell; here their arrival only shows that the peer lives.
  void handle(Member&, const Vouched&, TimePoint) {}

  void handle(Member&, const ChannelOpen&, TimePoint) {}

  template <typename Unexpected>
  void handle(Member& member, const Unexpected& message, TimePoint now);

  std::optional<Membership::Refusal> refusal_of(const Hello& hello) const;
  std::optional<ErrorReply> refusal_of(const Member& member, const Join& join) const;
  std::optional<std::string> contradiction(const Member& member, const Join& join) const;
  bool opens(RoundNumber round) const;
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
  void watch_ranks(TimePoint now);
  void end_hung_round(TimePoint now);
  void schedule();
  Effects finish(TimePoint now);

  void send(SessionId session, Message message);
  void send(const NodeName& node, Message message);
  void refuse(SessionId session, Errc code, std::string about, std::string text);

  CoordinatorOptions options_;
  Membership members_;
  Round forming_;
  /// The round that has places, until no worker of it can be alive.
  std::optional<RunningRound> active_;
  /// What the ranks of that round do.
  HangWatch hang_watch_;
  StragglerWatch straggler_watch_;
  std::optional<JobClosed> job_over_;
  /// The causes that a verdict names if the job ends because no other round comes.
  std::optional<JobClosed> last_failure_;
  std::optional<JobClosed> last_loss_;
  RestartPolicy restart_policy_;
  /// The answer to each node's last leave_round, for the case that the node repeats it.
  std::unordered_map<NodeName, Left> last_left_;

  /// The settings of the first node that joined, with which those of all other nodes must agree.
  struct Stated {
    NodeName node;
    std::string title;
    Settings settings;
  };

  std::optional<Stated> stated_;

  /// The launcher's news of a node that has not joined.
  struct State {
    std::string text;
    bool ago = false;
    TimePoint since;
  };

  std::unordered_map<NodeName, State> states_;
  /// The nodes that the launcher expected and has lost before they came, each with the reason.
  std::unordered_map<NodeName, std::string> given_up_;
  /// The hosts of nodes that the job has lost since its last round, each with the time of the loss.
  std::map<std::string, TimePoint> gone_;
  std::unordered_map<SessionId, std::string> addresses_;
  std::optional<SessionId> own_session_;
  /// The node with the session own_session_; empty until that session has said hello.
  NodeName own_node_;
  bool launcher_known_ = false;
  TimePoint launcher_gone_since_{};
  /// The node that has just joined and is told the status at once; the others are told once a second.
  std::optional<NodeName> newcomer_;
  int told_at_once_ = 0;
  bool status_changed_ = false;
  TimePoint next_status_{};
  std::optional<TimePoint> armed_;
  Effects effects_;
};

/// The text for a node that the launcher has lost while its agent lives.
std::string given_up_text(const std::string& title, const std::string& reason);

}  // namespace muster::rendezvous
