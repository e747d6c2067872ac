// SPDX-License-Identifier: Apache-2.0
// A session over streams that come and go: messages of the layer above, and channels. Used by both sides.
// Includes Asio.
#pragma once

#include "rendezvous/wire/channel.hpp"
#include "rendezvous/wire/connection.hpp"
#include "rendezvous/wire/session_state.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace muster::rendezvous {

/// One thread, the executor's. Create with std::make_shared.
class WireSession : public std::enable_shared_from_this<WireSession> {
 public:
  /// Called from the executor, and not after close() or finish(). What they refer to must live until then.
  struct Handlers {
    /// A message, or an aside. May throw CoordinatorError, which ends the connection with that error.
    std::function<void(std::string_view payload)> message{};
    /// Something of a channel came, or an acknowledgement: a sign of life.
    std::function<void()> heard{};
    /// The peer opened a channel, for what `payload` says; close it to refuse. May throw as `message`.
    std::function<void(std::string_view payload, std::shared_ptr<Channel>)> channel_opened{};
    /// The connection that carried the session has ended. Another one can take its place, if the session is
    /// resumable.
    std::function<void(const ConnectionEnd&)> ended{};
  };

  /// `resumable`, `dialled`: as SessionState has them.
  WireSession(boost::asio::any_io_executor executor, Handlers handlers, bool resumable, bool dialled);
  ~WireSession();
  WireSession(const WireSession&) = delete;
  WireSession& operator=(const WireSession&) = delete;

  /// `connection`, over which each end has said how far it has received (in a hello; nothing at first),
  /// carries the session from now on; one that did before is closed. What the peer, who has got
  /// `peer_received` frames, lacks is sent again. Throws CoordinatorError (mend) if the peer claims what
  /// cannot be.
  void carry(std::shared_ptr<Connection> connection, std::uint64_t peer_received);

  /// As carry(), for a connection over which nothing has been said: this end says how far it has received,
  /// and sends nothing else until the other end, which has to call this as well, has said so, too.
  void move_to(std::shared_ptr<Connection> connection);

  /// The connection is given up; the session waits for another.
  void put_down();

  /// Queues a message, which begins with a byte of 0x20 or more. `settled` (optional) runs when the peer has
  /// it, or the session is over; if it is not resumable: when it has been written, or cannot be any more.
  /// Throws nothing: a session of which too much is kept ends its connection (Errc::lost, given up).
  void send(std::string_view payload, std::function<void()> settled = nullptr);

  /// Queues bytes that are lost with the connection, or if there is none.
  void send_aside(std::string_view payload);

  /// Tells the peer now, and not in a while, what has come.
  void acknowledge();

  std::uint64_t received_count() const { return state_.received(); }

  /// A stream carries it, or is about to.
  bool connected() const { return connection_ != nullptr || arriving_ != nullptr; }

  /// Opens a channel; `payload` says what for.
  std::shared_ptr<Channel> open_channel(std::string_view payload);

  /// Ends session, connection and channels after all that was sent before.
  void finish(const std::string& reason);

  /// Ends them now.
  void close(const std::string& reason);

 private:
  class Line;

  Connection::Handlers connection_handlers();
  void on_frame(std::string_view body);
  void on_ended(const ConnectionEnd& end);
  void on_opened(const Frame& frame);
  void on_resume(std::string_view body);
  void write(std::string frame);
  void send_frame(const Frame& frame);
  void end(const std::string& reason);
  void overflow();
  void acknowledge_later();
  void settle(bool all);
  /// Bytes that channels may add to what waits already.
  std::size_t room() const;
  void tell_writable();
  std::shared_ptr<Line> find(std::uint32_t channel) const;
  void close_channels(const std::string& reason);

  boost::asio::any_io_executor executor_;
  Handlers handlers_;
  bool resumable_;
  bool finished_ = false;
  bool ack_armed_ = false;
  /// overflow() is under way.
  bool overflows_ = false;
  std::shared_ptr<Connection> connection_;
  /// Has not said how far it has received.
  std::shared_ptr<Connection> arriving_;
  SessionState state_;
  boost::asio::steady_timer ack_timer_;
  /// Callbacks of send(), by number of the message.
  std::deque<std::pair<std::uint64_t, std::function<void()>>> unsettled_;
  /// The open ones; whoever uses a channel owns it.
  std::map<std::uint32_t, std::weak_ptr<Line>> channels_;
};

}  // namespace muster::rendezvous
