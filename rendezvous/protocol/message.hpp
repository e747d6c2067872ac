// SPDX-License-Identifier: Apache-2.0
// The control messages between a node's agent and the coordinator. Each travels as one JSON object in one
// frame (frame.hpp); the grammar is docs/protocol.md. Plain data; any thread.
#pragma once

#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/flight_record.hpp"
#include "rendezvous/protocol/job_limits.hpp"
#include "rendezvous/protocol/rank_health.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster::rendezvous {

/// The versions of the control protocol that this build speaks. Version 1 was spoken only inside a host: it
/// knew no resumption, no launcher and no common restart counter. Version 2 had messages of its own for
/// acknowledgements and for opening channels. Version 3 knew nothing of what ranks do.
inline constexpr int kProtocolVersionMin = 4;
inline constexpr int kProtocolVersionMax = 4;

enum class Role {
  node,      ///< an agent, which takes part in rounds
  launcher,  ///< the launcher of the job, which is told of its progress and takes part in no round
  observer,  ///< a peer that asks a daemon what it hosts, and belongs to no job
};

/// The first message of a connection. Answer: HelloOk, or ErrorReply and the end of the connection; an
/// observer gets DaemonStatus, a JobStatus for each job, and the end of the connection.
struct Hello {
  int version_min = kProtocolVersionMin;
  int version_max = kProtocolVersionMax;
  std::string run_id;
  NodeName node;
  /// A number that differs for each start of the node's agent, so that an agent declared dead cannot come
  /// back unnoticed.
  std::uint64_t incarnation = 0;
  Role role = Role::node;
  /// The version of the peer's muster, for texts: "0.5.0". Empty: not said.
  std::string software{};
  std::string host{};
  /// The nonce of the run that the peer has been told it belongs to; empty at its first hello. A peer of
  /// another run is refused.
  std::string nonce{};
  /// The session that is to go on over this connection; 0: the peer has been given none yet.
  SessionId session = 0;
  /// The number of that session's numbered frames that the peer has received.
  std::uint64_t received = 0;
  /// The limits of the node's job, for a daemon that hosts jobs and has no command line of theirs.
  std::optional<JobLimits> limits{};
  bool operator==(const Hello&) const = default;
};

struct HelloOk {
  int version = kProtocolVersionMax;
  std::string run_id{};
  /// A text drawn once by the coordinator, which tells this run of the job from an earlier one.
  std::string nonce{};
  /// The session that a later hello names in order to go on after a broken connection.
  SessionId session = 0;
  /// The number of the session's numbered frames that the coordinator has received.
  std::uint64_t received = 0;
  /// The version of the coordinator's muster, for texts.
  std::string software{};
  bool operator==(const HelloOk&) const = default;
};

/// Asks for a place in the next round. Answers: Status from time to time, at last RoundResult or ErrorReply.
struct Join {
  /// The host's name, for texts that people read.
  std::string host;
  /// The address at which other nodes reach this one; the store listens there if this becomes node 0.
  std::string address;
  /// Workers that this node will start.
  int workers = 1;
  /// The wanted round: 0 stands for the next one, whatever its number; another number must be that of the
  /// next round.
  RoundNumber round = 0;
  /// The wanted place among the nodes; -1: any. Places follow these numbers when every node gives one.
  int node_rank = -1;
  /// Settings that must be the same on every node, by the names under which people know them
  /// ("max_restarts"). A difference to the first node's settings is refused, naming both values.
  Settings settings{};
  /// Further addresses at which other nodes reach this one.
  std::vector<std::string> addresses{};
  bool operator==(const Join&) const = default;
};

/// The progress of the forming round.
struct Status {
  RoundNumber round = 0;
  int joined = 0;
  /// The number of nodes needed before the round can begin.
  int wanted = 0;
  /// The nodes waited for whose names are known, at most kMaxNamesInText of them.
  std::vector<NodeName> missing;
  /// The progress for people: "2 of 3 nodes joined; waiting for 1 more".
  std::string text;
  bool operator==(const Status&) const = default;
};

/// A place in a completed round.
struct RoundResult {
  RoundNumber round = 0;
  int node_rank = 0;
  int nodes = 1;
  int world_size = 1;
  /// The global rank of this node's local rank 0; its other ranks follow without a gap.
  int first_rank = 0;
  std::string store_host;
  int store_port = 0;
  /// The number of restarts of the whole job so far.
  int restarts = 0;
  bool operator==(const RoundResult&) const = default;
};

/// How a node's part in a round ended.
enum class RoundOutcome {
  succeeded,  ///< every worker exited with 0; the node does not come back
  failed,     ///< a worker failed
  stopped,    ///< the workers were stopped because another node failed, or on an order
};

/// Tells that a worker failed; the other nodes can stop theirs now, though this node's own workers still
/// live. No answer.
struct FailRound {
  RoundNumber round = 0;
  std::string text{};
  /// The worker's exit code as a shell has it: 128 + n for a signal.
  int exit_code = 1;
  std::string host{};
  /// The worker's global rank; -1: no single worker.
  int rank = -1;
  /// The signal that ended the worker; 0: the worker exited.
  int signal = 0;
  /// The line by which this failure is recognised in later rounds: "ValueError: no luck". At most
  /// kMaxErrorLineBytes; empty: the worker wrote no line that came this way.
  std::string error_line{};
  /// Whether a worker of this node has reported a step in this round.
  bool stepped = false;
  bool operator==(const FailRound&) const = default;
};

/// Tells that no worker of the round is alive on this node any more. Answer: Left or ErrorReply.
struct LeaveRound {
  RoundNumber round = 0;
  RoundOutcome outcome = RoundOutcome::stopped;
  /// The cause of the round's end, which counts if nothing else has ended the round before.
  int exit_code = 1;
  std::string text{};
  bool operator==(const LeaveRound&) const = default;
};

/// What a node does after it has left a round.
enum class NextStep {
  join,  ///< another round follows: join it
  wait,  ///< all workers here succeeded, others still work: stay connected until JobClosed, or RoundEnd with
         ///< `again`
  end,   ///< this node is not needed any more; JobClosed follows when all have left
};

struct Left {
  RoundNumber round = 0;
  NextStep next = NextStep::join;
  /// The same decision as in RoundEnd, for the node whose own failure ended the round.
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
  hung,           ///< the ranks stand still for good (--on-hang restart, abort); of no node in particular
};

/// Returns the cause in one word, as messages have it: "node_failed".
std::string name_of(RoundEndCause cause);

/// Told to every node of a round: stop your workers, then leave_round. Also told to a node that waits after
/// its success: with `again` it joins once more (it has left already); otherwise JobClosed follows.
struct RoundEnd {
  RoundNumber round = 0;
  RoundEndCause cause = RoundEndCause::node_failed;
  /// The node that caused the end; empty if no node did.
  NodeName node{};
  std::string text{};
  int exit_code = 0;
  /// The host and global rank of the cause, as far as they are known.
  std::string host{};
  int rank = -1;
  /// Whether another round follows, which a node joins after leaving this one. The same for every node of the
  /// round.
  bool again = false;
  /// The number of restarts of the whole job, the coming one included.
  int restarts = 0;
  /// The time after the end of this round before which the next one does not begin.
  Milliseconds delay{0};
  /// The decision about another round, with its reason, for people: "restarting all workers in 2 s (restart 2
  /// of 5)".
  std::string decision{};
  /// Whether the decision is part of the cause, because it ends the job and not the failure of a worker by
  /// itself.
  bool decision_is_cause = false;
  bool operator==(const RoundEnd&) const = default;
};

/// Why the round ended, for people: "node n1 is lost: ...; no restart is left (--max-restarts 0)".
inline std::string cause_text(const RoundEnd& end) {
  return end.text + (end.decision_is_cause ? "; " + end.decision : "");
}

/// Tells that the sender lives; the coordinator sends the sequence back.
struct Heartbeat {
  std::uint64_t sequence = 0;
  bool operator==(const Heartbeat&) const = default;
};

/// Tells that the job is over, with its only verdict, the same for everybody.
struct JobClosed {
  std::string reason;
  bool succeeded = false;
  /// The exit code and the place of the first failure, as far as they are known.
  int exit_code = 0;
  NodeName node{};
  std::string host{};
  int rank = -1;
  bool operator==(const JobClosed&) const = default;
};

/// The launcher's news of a node that has not joined, or of one that has ended. No answer.
struct NodeState {
  NodeName node;
  /// The news for people: "ssh: connection refused"; empty: there is nothing to say any more.
  std::string text{};
  /// Whether texts add how long ago the news came: "started" becomes "started 4 s ago".
  bool ago = false;
  /// Whether no guardian is left on the node, as the connection to it has shown; the text is the reason. The
  /// node's agent may live for the grace period, but a broken connection of it is not waited for.
  bool ended = false;
  /// Whether the launcher cannot reach the node any more and would not hear of its work: the node has to go,
  /// and it is not taken in if it has not come yet. Only with `ended`.
  bool given_up = false;
  bool operator==(const NodeState&) const = default;
};

/// Asks a node whether a connection whose far end is on it belongs to this job and its user. Answer: Vouched.
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
  /// The reason of a no, for people.
  std::string reason{};
  bool operator==(const Vouched&) const = default;
};

/// Asks about the launcher, without fields; the answer has the fields.
struct LauncherState {
  /// Whether a launcher has ever been connected to this coordinator.
  bool known = false;
  bool connected = false;
  /// The time for which the launcher has been gone, by the coordinator's clock.
  Milliseconds gone{0};
  /// Whether the launcher ended its connection or was taken for dead, so that nobody need wait for it to come
  /// back.
  bool ended = false;
  bool operator==(const LauncherState&) const = default;
};

enum class ChannelKind {
  store,  ///< from an agent to the coordinator: one worker's connection to the store
  link,   ///< from the launcher through the coordinator to a node: the launcher's link, when ssh is cut
};

/// Says what a channel of the session (rendezvous/wire/channel.hpp) is opened for.
struct ChannelOpen {
  ChannelKind kind = ChannelKind::store;
  /// The node to which the launcher wants a link; empty towards the node itself, and for a store.
  NodeName node{};
  /// For a store: the ports, on the node's 127.0.0.1, of the worker and of the agent that it is connected to,
  /// by which the agent knows the worker again (KeyWait); 0: not told.
  int worker_port = 0;
  int proxy_port = 0;
  bool operator==(const ChannelOpen&) const = default;
};

/// The state of a daemon, for an observer.
struct DaemonStatus {
  /// The version of the daemon's muster, for texts.
  std::string software{};
  std::uint64_t uptime_s = 0;
  /// The number of JobStatus messages that follow.
  int jobs = 0;
  /// The number of connections to the daemon's own store, which serves torchrun's agents.
  int store_clients = 0;
  bool operator==(const DaemonStatus&) const = default;
};

/// The state of one job of a daemon. A job that is over is kept for a while.
struct JobStatus {
  std::string run_id{};
  std::uint64_t uptime_s = 0;
  bool over = false;
  /// The round that runs or forms.
  RoundNumber round = 0;
  /// The number of nodes whose connection works.
  int nodes = 0;
  /// The number of restarts of the whole job so far.
  int restarts = 0;
  /// The state for people: "round 1 runs on 2 nodes: n00, n01".
  std::string text{};
  bool operator==(const JobStatus&) const = default;
};

/// Tells a node that a connection to the store, or to the node's proxy of it, whose far end is on its host,
/// waits for a key: it may be one of its ranks'. No answer; what a rank does is told by RankHealth.
struct KeyWait {
  RoundNumber round = 0;
  std::string peer_host{};
  int peer_port = 0;
  std::string local_host{};
  int local_port = 0;
  std::string key{};
  /// The nearest key that the store has; empty: none is near.
  std::string nearest{};
  bool operator==(const KeyWait&) const = default;
};

/// A line about the job that people are to read, told to every node of the round: that it hangs, and why, or
/// that it moves again.
struct JobNotice {
  RoundNumber round = 0;
  std::string text{};
  /// The verdict that the text says; none: the one before is taken back.
  HangLevel hang = HangLevel::none;
  /// The ranks that are its cause, in order, at most kMaxCulprits; none: all agree, or there is no verdict.
  std::vector<int> culprits{};
  /// How long no rank had moved when this was said.
  Milliseconds still{0};
  bool operator==(const JobNotice&) const = default;
};

/// Tells how fast a rank made its last steps, as it told them (muster_set_step), or its last calls with other
/// ranks, if its program tells no steps. No answer.
struct RankPace {
  RoundNumber round = 0;
  int rank = 0;
  /// The number of steps since the last message of that rank, at least 1.
  int steps = 1;
  /// The mean time of those steps, and the part of it in which the rank was in no call with other ranks, in
  /// microseconds.
  std::uint64_t step_us = 0;
  std::uint64_t own_us = 0;
  /// Whether all this is about calls instead of steps.
  bool by_calls = false;
  bool operator==(const RankPace&) const = default;
};

/// Tells what is wrong on a node's host that is no fault of the program: "the file system /scratch is full".
/// Empty: nothing (any more). No answer.
struct HostNews {
  RoundNumber round = 0;
  std::string text{};
  bool operator==(const HostNews&) const = default;
};

/// A line about ranks that are slower than the others, told to every node of the round. It says nothing about
/// a hang, and takes no verdict back.
struct SlowRanks {
  RoundNumber round = 0;
  std::string text{};
  /// Whether there are such ranks; false: the line before is taken back.
  bool slow = false;
  bool operator==(const SlowRanks&) const = default;
};

/// Tells what PyTorch's flight recorder has noted of a rank that stands still, when that is known, and when
/// it is something else than before. No answer.
struct RankFlight {
  RoundNumber round = 0;
  FlightRank record{};
  bool operator==(const RankFlight&) const = default;
};

struct ErrorReply {
  Errc code = Errc::mend;
  /// The type of the request that this answers ("join"); empty when it answers none.
  std::string about;
  std::string text;
  bool operator==(const ErrorReply&) const = default;
};

using Message =
    std::variant<Hello, HelloOk, Join, Status, RoundResult, FailRound, LeaveRound, Left, RoundEnd, Heartbeat,
                 JobClosed, ErrorReply, NodeState, Vouch, Vouched, LauncherState, ChannelOpen, DaemonStatus,
                 JobStatus, RankHealth, KeyWait, JobNotice, RankPace, HostNews, SlowRanks, RankFlight>;

/// Whether a message is counted in its session and sent again after a resumption.
bool is_numbered(const Message& message);

/// The value of the message's field "type": "hello", "round_result", ...
std::string_view type_name(const Message& message);

/// The JSON text of a message, on one line. Invalid UTF-8 is replaced.
std::string to_json(const Message& message);

/// Reads a message. Unknown fields are ignored. Fields that version 1 did not have may be absent. Throws
/// CoordinatorError: code mend for text that is no JSON object, lacks a field or has one out of its range
/// (named); code upgrade for an unknown type, with both sides' versions. `peer_version` is what the peer said
/// in its hello; 0: it has said none yet.
Message message_from_json(std::string_view text, int peer_version = 0);

}  // namespace muster::rendezvous
