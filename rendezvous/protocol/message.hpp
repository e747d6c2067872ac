// SPDX-License-Identifier: Apache-2.0
// The control messages between a node's agent and the coordinator. Each travels as one JSON object in one
// frame (frame.hpp); the grammar is docs/protocol.md. Plain data; any thread.
#pragma once

#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/ids.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster::rendezvous {

/// Versions of the control protocol that this build speaks. Version 1 never left its host: it knew no
/// resumption, no launcher and no common restart counter. Version 2 acknowledged, and opened channels, by
/// messages of its own.
inline constexpr int kProtocolVersionMin = 3;
inline constexpr int kProtocolVersionMax = 3;

enum class Role {
  node,      ///< an agent: takes part in rounds
  launcher,  ///< the launcher of the job: told of its progress, asked by nobody, in no round
  observer,  ///< asks a daemon what it hosts; of no job
};

/// First message of a connection. Answer: HelloOk, or ErrorReply and the end of the connection; to an
/// observer DaemonStatus, a JobStatus for each job, and the end of the connection.
struct Hello {
  int version_min = kProtocolVersionMin;
  int version_max = kProtocolVersionMax;
  std::string run_id;
  NodeName node;
  /// Different for each start of the node's agent, so that one declared dead cannot come back unnoticed.
  std::uint64_t incarnation = 0;
  Role role = Role::node;
  /// The peer's muster, for texts: "0.5.0". Empty: not said.
  std::string software{};
  std::string host{};
  /// Of the run that the peer has been told it belongs to; empty at its first hello. Another run's is
  /// refused.
  std::string nonce{};
  /// The session that is to go on over this connection; 0: none has been given yet.
  SessionId session = 0;
  /// Numbered frames of that session that have come to the peer.
  std::uint64_t received = 0;
  /// Of the node's job. A daemon that hosts jobs has no command line of theirs, and needs it.
  std::optional<JobLimits> limits{};
  bool operator==(const Hello&) const = default;
};

struct HelloOk {
  int version = kProtocolVersionMax;
  std::string run_id{};
  /// Drawn once by the coordinator: tells this run of the job from an earlier one.
  std::string nonce{};
  /// What a later hello names to go on after a broken connection.
  SessionId session = 0;
  /// Numbered frames of the session that have come to the coordinator.
  std::uint64_t received = 0;
  /// The coordinator's muster, for texts.
  std::string software{};
  bool operator==(const HelloOk&) const = default;
};

/// Asks for a place in the next round. Answers: Status now and then, at last RoundResult or ErrorReply.
struct Join {
  /// The host's name, for texts that people read.
  std::string host;
  /// Address at which other nodes reach this one; the store listens there if this becomes node 0.
  std::string address;
  /// Workers that this node will start.
  int workers = 1;
  /// The round wanted: 0 is "the next, whichever"; another number must be the next.
  RoundNumber round = 0;
  /// Wanted place among the nodes; -1: any. Places follow these numbers when every node gives one.
  int node_rank = -1;
  /// What must be the same on every node, by the name under which people know it ("max_restarts"). A
  /// difference to the first node's is refused, naming both.
  std::map<std::string, std::string> settings{};
  /// Further addresses at which this node is reached.
  std::vector<std::string> addresses{};
  bool operator==(const Join&) const = default;
};

/// How far the forming round is.
struct Status {
  RoundNumber round = 0;
  int joined = 0;
  /// Nodes needed before the round can begin.
  int wanted = 0;
  /// Nodes waited for whose names are known, at most kMaxNamesInText of them.
  std::vector<NodeName> missing;
  /// For people: "2 of 3 nodes joined; waiting for 1 more".
  std::string text;
  bool operator==(const Status&) const = default;
};

/// A place in a completed round.
struct RoundResult {
  RoundNumber round = 0;
  int node_rank = 0;
  int nodes = 1;
  int world_size = 1;
  /// Global rank of this node's local rank 0; its others follow without a gap.
  int first_rank = 0;
  std::string store_host;
  int store_port = 0;
  /// Restarts of the whole job so far.
  int restarts = 0;
  bool operator==(const RoundResult&) const = default;
};

/// How a node's part in a round ended.
enum class RoundOutcome {
  succeeded,  ///< every worker exited 0; the node does not come back
  failed,     ///< a worker failed
  stopped,    ///< stopped for another's failure or on an order
};

/// A worker failed; the others can be stopped now, though this node's own workers still live. No answer.
struct FailRound {
  RoundNumber round = 0;
  std::string text{};
  /// As a shell has it: 128 + n for a signal.
  int exit_code = 1;
  std::string host{};
  /// Global rank; -1: no single one.
  int rank = -1;
  /// The signal that ended the worker; 0: it exited.
  int signal = 0;
  /// The line by which this failure is known again: "ValueError: no luck". At most kMaxErrorLineBytes; empty:
  /// the worker said nothing that came this way.
  std::string error_line{};
  /// A worker of this node has told a step in this round.
  bool stepped = false;
  bool operator==(const FailRound&) const = default;
};

/// No worker of the round is alive on this node any more. Answer: Left or ErrorReply.
struct LeaveRound {
  RoundNumber round = 0;
  RoundOutcome outcome = RoundOutcome::stopped;
  /// Counts when nothing else has ended the round before: why it ends now.
  int exit_code = 1;
  std::string text{};
  bool operator==(const LeaveRound&) const = default;
};

/// What a node does after it has left a round.
enum class NextStep {
  join,  ///< another round follows: join it
  wait,  ///< all is well here, others still work: stay connected until JobClosed, or RoundEnd with `again`
  end,   ///< this node is not needed any more; JobClosed follows when all have left
};

struct Left {
  RoundNumber round = 0;
  NextStep next = NextStep::join;
  /// As in RoundEnd, for the node whose own failure ended the round.
  int restarts = 0;
  Milliseconds delay{0};
  std::string decision{};
  bool operator==(const Left&) const = default;
};

enum class RoundEndCause {
  node_failed,    ///< a worker of `node` failed
  node_left,      ///< `node` stopped its workers on an order
  node_lost,      ///< `node` died or its connection did
  nodes_waiting,  ///< a new node wants to join and there is room
};

/// To every node of a round: stop your workers, then leave_round. To a node that waits after its success:
/// with `again`, join once more (it has left already); else JobClosed follows.
struct RoundEnd {
  RoundNumber round = 0;
  RoundEndCause cause = RoundEndCause::node_failed;
  /// The node that caused it; empty if none did.
  NodeName node{};
  std::string text{};
  int exit_code = 0;
  /// Where it began: host and global rank, so far as they are known.
  std::string host{};
  int rank = -1;
  /// Another round follows: join it after leaving this one. The same for every node of the round.
  bool again = false;
  /// Restarts of the whole job, the coming one included.
  int restarts = 0;
  /// The next round does not begin before this time has passed since the end of this one.
  Milliseconds delay{0};
  /// What was decided about another round, and why, for people: "restarting all workers in 2 s (restart 2 of
  /// 5)".
  std::string decision{};
  /// That decision ends the job, and not the failure of a worker by itself: it belongs to the cause.
  bool decision_is_cause = false;
  bool operator==(const RoundEnd&) const = default;
};

/// Why the round ended, for people: "node n1 is lost: ...; no restart is left (--max-restarts 0)".
inline std::string cause_text(const RoundEnd& end) {
  return end.text + (end.decision_is_cause ? "; " + end.decision : "");
}

/// Each side says that it lives; the coordinator sends back the sequence it got.
struct Heartbeat {
  std::uint64_t sequence = 0;
  bool operator==(const Heartbeat&) const = default;
};

/// The job is over: its only verdict, the same for everybody.
struct JobClosed {
  std::string reason;
  bool succeeded = false;
  /// Of the first failure, so far as it is known: its exit code, and where it was.
  int exit_code = 0;
  NodeName node{};
  std::string host{};
  int rank = -1;
  bool operator==(const JobClosed&) const = default;
};

/// From the launcher: how far it is with a node that has not joined, or that one has ended. No answer.
struct NodeState {
  NodeName node;
  /// "ssh: connection refused"; empty: nothing to say any more.
  std::string text{};
  /// The text is followed by how long ago it came: "started" becomes "started 4 s ago".
  bool ago = false;
  /// No guardian is left there, as what led to it says, and the text is why. Its agent may live for the grace
  /// period, but a connection of it that broke is not worth waiting for.
  bool ended = false;
  /// Nothing leads there any more, and nobody would hear of what it does: it has to go, and if it has not
  /// come yet it is not taken in. Only with `ended`.
  bool given_up = false;
  bool operator==(const NodeState&) const = default;
};

/// To a node: does that connection, whose far end is on it, belong to this job and its user? Answer: Vouched.
struct Vouch {
  std::uint64_t id = 0;
  std::string peer_host{};
  int peer_port = 0;
  std::string local_host{};
  int local_port = 0;
  bool operator==(const Vouch&) const = default;
};

struct Vouched {
  std::uint64_t id = 0;
  bool allowed = false;
  /// Why not; for people.
  std::string reason{};
  bool operator==(const Vouched&) const = default;
};

/// Asked without fields; the answer has them.
struct LauncherState {
  /// A launcher has been connected to this coordinator.
  bool known = false;
  bool connected = false;
  /// How long it has been gone, by the coordinator's clock.
  Milliseconds gone{0};
  /// It ended its connection, or was taken for dead: nobody need wait for it to come back.
  bool ended = false;
  bool operator==(const LauncherState&) const = default;
};

enum class ChannelKind {
  store,  ///< agent to coordinator: one worker's connection to the store
  link,   ///< launcher to coordinator to node: the launcher's link, when ssh is cut
};

/// What a channel of the session (rendezvous/wire/channel.hpp) is opened for.
struct ChannelOpen {
  ChannelKind kind = ChannelKind::store;
  /// Of a link: the node wanted, and towards the node empty.
  NodeName node{};
  bool operator==(const ChannelOpen&) const = default;
};

/// What a daemon says of itself to an observer.
struct DaemonStatus {
  /// Its muster, for texts.
  std::string software{};
  std::uint64_t uptime_s = 0;
  /// So many messages JobStatus follow.
  int jobs = 0;
  /// Connections of its own store, that of torchrun's agents.
  int store_clients = 0;
  bool operator==(const DaemonStatus&) const = default;
};

/// One of its jobs. One that is over is kept for a while.
struct JobStatus {
  std::string run_id{};
  std::uint64_t uptime_s = 0;
  bool over = false;
  /// The round that runs, or forms.
  RoundNumber round = 0;
  /// Nodes whose connection works.
  int nodes = 0;
  /// Restarts of the whole job so far.
  int restarts = 0;
  /// For people: "round 1 runs on 2 nodes: n00, n01".
  std::string text{};
  bool operator==(const JobStatus&) const = default;
};

struct ErrorReply {
  Errc code = Errc::mend;
  /// Type of the request that this answers ("join"); empty when it answers none.
  std::string about;
  std::string text;
  bool operator==(const ErrorReply&) const = default;
};

using Message = std::variant<Hello, HelloOk, Join, Status, RoundResult, FailRound, LeaveRound, Left, RoundEnd,
                             Heartbeat, JobClosed, ErrorReply, NodeState, Vouch, Vouched, LauncherState,
                             ChannelOpen, DaemonStatus, JobStatus>;

/// Whether a message counts in its session's numbering, so that it is sent again after a resumption.
bool is_numbered(const Message& message);

/// "hello", "round_result", ...: the value of the field "type".
std::string_view type_name(const Message& message);

/// The JSON text of a message, on one line. Invalid UTF-8 is replaced.
std::string to_json(const Message& message);

/// Unknown fields are ignored. Fields that version 1 did not have may be absent. Throws CoordinatorError:
/// code mend for text that is no JSON object, lacks a field or has one out of its range (named); code upgrade
/// for an unknown type, with both sides' versions. `peer_version` is what the peer said in its hello; 0: it
/// has not yet.
Message message_from_json(std::string_view text, int peer_version = 0);

}  // namespace muster::rendezvous
