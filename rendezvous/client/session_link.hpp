// SPDX-License-Identifier: Apache-2.0
// A control session over connections that come and go: numbered messages, channels. Used by both sides.
// Includes Asio.
#pragma once

#include "rendezvous/client/channel.hpp"
#include "rendezvous/client/connection.hpp"
#include "rendezvous/client/session_ledger.hpp"
#include "rendezvous/protocol/message.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace muster::rendezvous {

/// One thread, the executor's. Create with std::make_shared.
class SessionLink : public std::enable_shared_from_this<SessionLink> {
 public:
  /// Called from the executor, and not after close(). What they refer to must live until close().
  struct Handlers {
    /// All that is not about acknowledgement and channels. May throw CoordinatorError, which ends the
    /// connection with that error.
    std::function<void(const Message&)> message{};
    /// Something of a channel came, or an acknowledgement: a sign of life.
    std::function<void()> heard{};
    /// The peer opened a channel; close it to refuse.
    std::function<void(const ChannelOpen&, std::shared_ptr<Channel>)> channel_opened{};
    /// The connection that carried the session has ended. It can be replaced by carry(), if it is resumable.
    std::function<void(const ConnectionEnd&)> ended{};
  };

  /// `resumable`: what is sent is kept until it is acknowledged. `dialled`: this side opens channels with odd
  /// numbers.
  SessionLink(boost::asio::any_io_executor executor, Handlers handlers, bool resumable, bool dialled);
  ~SessionLink();
  SessionLink(const SessionLink&) = delete;
  SessionLink& operator=(const SessionLink&) = delete;

  /// `connection`, whose hello is over, carries the session from now on; one that did before is closed. What
  /// the peer, who has got `peer_received` messages, lacks is sent again. Throws CoordinatorError (mend) if
  /// the peer claims what cannot be.
  void carry(std::shared_ptr<Connection> connection, std::uint64_t peer_received);

  /// The connection is given up; the session waits for another.
  void put_down();

  /// Queues. Throws nothing: a session of which too much is kept ends its connection (Errc::lost, not
  /// broken).
  void send(Message message);

  std::uint64_t received_count() const { return ledger_.received_count(); }

  bool connected() const { return connection_ != nullptr; }

  Connection* connection() const { return connection_.get(); }

  std::shared_ptr<Channel> open_channel(ChannelKind kind, const NodeName& node);

  /// Ends session, connection and channels after all that was sent before.
  void finish(const std::string& reason);

 private:
  class Line;

  Connection::Handlers connection_handlers();
  void on_message(const Message& message, std::size_t bytes);
  void on_ended(const ConnectionEnd& end);
  void on_raw(std::string_view body);
  void on(const ChannelOpen& open);
  void on(const ChannelCredit& credit);
  void on(const ChannelClose& close);
  void count_received(std::size_t bytes);
  void transmit(std::string frame);
  void overflow();
  /// Bytes that channels may add to what waits already.
  std::size_t room() const;
  void tell_writable();
  std::shared_ptr<Line> find(std::uint32_t channel) const;
  void close_channels(const std::string& reason);

  boost::asio::any_io_executor executor_;
  Handlers handlers_;
  bool resumable_;
  bool dialled_;
  bool finished_ = false;
  std::uint32_t next_channel_;
  std::shared_ptr<Connection> connection_;
  SessionLedger ledger_;
  /// The open ones; whoever uses a channel owns it.
  std::map<std::uint32_t, std::weak_ptr<Line>> channels_;
};

}  // namespace muster::rendezvous
