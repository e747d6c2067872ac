// SPDX-License-Identifier: Apache-2.0
// An agent's side of the control connection. Includes Asio: few files should include this header.
#pragma once

#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/protocol/message.hpp"
#include "rendezvous/wire/byte_stream.hpp"
#include "rendezvous/wire/channel.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace muster::rendezvous {

struct ClientOptions {
  std::string run_id;
  /// This node's name, unique among the living nodes of the job.
  NodeName node;
  Role role = Role::node;
  std::string host;
  /// The version of this software, for a refusal that names the versions of both sides.
  std::string version;
  /// The time between two heartbeats. Default: 1 s.
  Milliseconds heartbeat_interval = kHeartbeatInterval;
  /// Silence of the coordinator after which it counts as lost. Default 0: only the end of the connection
  /// counts, which is exact for a local socket. Over a network: kDeadAfter.
  Milliseconds lost_after{0};
  /// The limits of the job, for a daemon, which does not know the job's command line.
  std::optional<JobLimits> limits{};
};

/// Makes a connection to the coordinator, or throws CoordinatorError: lost and deadline mean that trying
/// again may help, anything else is final. Called again for each reconnection.
using Connector = std::function<boost::asio::awaitable<std::unique_ptr<ByteStream>>(TimePoint deadline)>;

/// Handlers of events that nobody asked for. They run on the executor's thread, never inside a call of the
/// client, and let no exception out. Any may be empty.
struct ClientEvents {
  /// Told while join() waits: "2 of 3 nodes joined; waiting for 1 more".
  std::function<void(const Status&)> status;
  /// The answer to leave_round(), told before that call returns and so in the order of the messages.
  std::function<void(const Left&)> left;
  /// The round has ended: stop its workers, call leave_round(), and join() again if another round follows.
  std::function<void(const RoundEnd&)> round_ended;
  /// Somebody on this host waits for a key of the store.
  std::function<void(const KeyWait&)> key_wait;
  /// A line about the round that people are to read.
  std::function<void(const JobNotice&)> notice;
  std::function<void(const SlowRanks&)> slow_ranks;
  /// The coordinator closed the job.
  std::function<void(const JobClosed&)> job_closed;
  /// The coordinator is gone or unusable, and no call can succeed any more. At most once, and not after
  /// close().
  std::function<void(const std::string& reason)> lost;
  /// Asks whose a connection is; answer by tell(Vouched), now or later.
  std::function<void(const Vouch&)> vouch;
  /// The coordinator opened a channel to this side (a link that the launcher asked for).
  std::function<void(const ChannelOpen&, std::shared_ptr<Channel>)> channel_opened;
  /// The connection broke and is being made again. The session goes on, and messages sent meanwhile are kept.
  /// For the log.
  std::function<void(const std::string& reason)> interrupted;
  std::function<void()> resumed;
};

/// One control session. One thread (the executor's); one call of each kind at a time. All failures are
/// CoordinatorError; a call that is cancelled (by a cancellation slot, as `join() || stop` does) throws
/// boost::system::system_error with operation_aborted.
/// Destroying the client closes the connection; calls that still wait then fail with Errc::lost.
class CoordinatorClient {
 public:
  /// Takes ownership of `connected_fd` (any connected stream socket), says hello and begins to send
  /// heartbeats.
  CoordinatorClient(boost::asio::any_io_executor executor, int connected_fd, ClientOptions options,
                    ClientEvents events);
  /// Connects by `connector`, again and again until `first_deadline`. A connection that breaks later is made
  /// again for up to options.lost_after (give one), and no message is lost or doubled. If the coordinator's
  /// process ends its connection, it is lost at once.
  CoordinatorClient(boost::asio::any_io_executor executor, Connector connector, TimePoint first_deadline,
                    ClientOptions options, ClientEvents events);
  ~CoordinatorClient();
  CoordinatorClient(const CoordinatorClient&) = delete;
  CoordinatorClient& operator=(const CoordinatorClient&) = delete;

  /// Waits until the coordinator has answered hello. Throws the cause of a failure: the coordinator's
  /// refusal, or the connector's error.
  boost::asio::awaitable<void> connected(TimePoint deadline);

  /// Waits for a place in the next round. Errc::deadline when `deadline` passes first, Errc::environment when
  /// the store of the round could not be opened (the text is the cause).
  boost::asio::awaitable<RoundResult> join(Join request, TimePoint deadline);

  /// Says that no worker of the round is alive here any more, and waits until the coordinator has noted it.
  boost::asio::awaitable<Left> leave_round(LeaveRound request, TimePoint deadline);

  /// Tells what has no answer, and does not wait: a FailRound, so that the other nodes stop their workers at
  /// once, a RankHealth, a RankPace, a HostNews, a NodeState, or a Vouched (the answer to
  /// ClientEvents::vouch).
  void tell(const Message& message);

  /// Asks whether the launcher has a session with the coordinator.
  boost::asio::awaitable<LauncherState> launcher_state(TimePoint deadline);

  /// Opens a channel: to the store of the present round, or (launcher) to the node's agent. Never null; a
  /// channel that is refused is closed.
  std::shared_ptr<Channel> open_channel(const ChannelOpen& what);

  /// The local address of the connection, numeric; empty while there is none or for a local socket.
  std::string local_address() const;

  /// Ends the connection; no event follows.
  void close();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::rendezvous
