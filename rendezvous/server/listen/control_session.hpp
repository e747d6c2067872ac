// SPDX-License-Identifier: Apache-2.0
// The coordinator's end of one control session. Includes Asio.
#pragma once

#include "rendezvous/client/control_message.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/tls/peer_identity.hpp"
#include "rendezvous/wire/wire_session.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

namespace muster::rendezvous {

/// Facts about a connection's peer that are known before it speaks.
struct PeerPlace {
  /// The identity that the peer's key has proved; none for a local socket.
  std::optional<PeerIdentity> identity{};
  /// The peer's address; empty for a local socket.
  SocketAddress address{};
};

/// A connection that has not said hello yet, with a small frame limit and little time. Create with
/// std::make_shared, then start(). One thread.
class Newcomer : public std::enable_shared_from_this<Newcomer> {
 public:
  /// Told once: the first message, or null when none came. Afterwards the owner forgets the newcomer.
  using FirstMessage = std::function<void(const std::shared_ptr<Newcomer>&, const Message*)>;

  Newcomer(boost::asio::any_io_executor executor, std::unique_ptr<ByteStream> stream, PeerPlace place,
           FirstMessage first_message);

  void start();

  const PeerPlace& place() const { return place_; }

  /// The connection of a newcomer whose first message has come.
  std::shared_ptr<Connection> connection() const { return connection_; }

  /// The reason why no first message came.
  const std::string& trouble() const { return trouble_; }

  /// Tells the peer why it is refused, and ends the connection.
  void refuse(const ErrorReply& error);

  void close() { connection_->close(); }

 private:
  void settle(const Message* message);

  PeerPlace place_;
  FirstMessage first_message_;
  std::shared_ptr<Connection> connection_;
  boost::asio::steady_timer timer_;
  std::string trouble_;
};

/// A session from its hello on, over one or several connections. One thread.
class ControlSession {
 public:
  /// Told about the session, from the executor, not after finish(); the session must not be destroyed before
  /// they return.
  struct Handlers {
    std::function<void(SessionId, const Message&)> message{};
    std::function<void(SessionId)> heard{};
    std::function<void(SessionId, const ChannelOpen&, std::shared_ptr<Channel>)> channel_opened{};
    /// Tells that the session's connection has ended, and why. The session goes on only if another connection
    /// arrives.
    std::function<void(SessionId, const ConnectionEnd&)> ended{};
  };

  ControlSession(SessionId id, const boost::asio::any_io_executor& executor, PeerPlace place,
                 Handlers handlers);
  ~ControlSession();
  ControlSession(const ControlSession&) = delete;
  ControlSession& operator=(const ControlSession&) = delete;

  const PeerPlace& place() const { return place_; }

  bool is_local() const { return !place_.identity; }

  /// Takes a connection whose hello has come. The connection carries the session once HelloOk is sent;
  /// before, it gets only a message that is sent instead (a refusal). `received`: the number in the hello.
  void arrive(std::shared_ptr<Connection> connection, const PeerPlace& place, std::uint64_t received);

  void send(const Message& message);

  std::shared_ptr<Channel> open_channel(ChannelKind kind) {
    return session_->open_channel(to_json(ChannelOpen{kind}));
  }

  /// Ends the session after everything that was sent has gone out.
  void finish();

 private:
  void carry(HelloOk hello);
  void on_ended(const ConnectionEnd& end);

  SessionId id_;
  PeerPlace place_;
  Handlers handlers_;
  std::shared_ptr<WireSession> session_;
  std::shared_ptr<Connection> arriving_;
  std::uint64_t arriving_received_ = 0;
  /// The protocol version that the peer was told to speak; 0: none yet.
  int peer_version_ = 0;
  bool finished_ = false;
};

/// The connections that have not said hello yet. Used on the executor's thread only.
class Newcomers {
 public:
  /// `first_message` is told of each newcomer, which is forgotten before the call; not after close().
  Newcomers(boost::asio::any_io_executor executor, Newcomer::FirstMessage first_message)
      : executor_(std::move(executor)), first_message_(std::move(first_message)) {}

  ~Newcomers() { close(); }

  Newcomers(const Newcomers&) = delete;
  Newcomers& operator=(const Newcomers&) = delete;

  /// Adds a connection. If there are too many with one key, the oldest of them is dropped.
  void add(std::unique_ptr<ByteStream> stream, PeerPlace place);

  /// Counts a newcomer as one more of its key, although its first message has come, because the answer has to
  /// wait.
  void hold(const std::shared_ptr<Newcomer>& newcomer);

  /// Stops counting a newcomer. Idempotent.
  void forget(const std::shared_ptr<Newcomer>& newcomer);

  /// The number of newcomers over a local socket.
  std::size_t local() const { return local_; }

  void close();

 private:
  boost::asio::any_io_executor executor_;
  Newcomer::FirstMessage first_message_;
  std::set<std::shared_ptr<Newcomer>> all_;
  /// The newcomers over the network by their identity, the oldest first.
  std::unordered_map<std::string, std::deque<std::shared_ptr<Newcomer>>> of_identity_;
  std::size_t local_ = 0;
  bool closed_ = false;
};

}  // namespace muster::rendezvous
