// SPDX-License-Identifier: Apache-2.0
// A session over streams that may break and be replaced: messages of the layer above, and channels. Used by
// both sides. Includes Asio.
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

/// One end of a session. Used on the executor's thread only. Create with std::make_shared.
class WireSession : public std::enable_shared_from_this<WireSession> {
 public:
  /// Told about the session, from the executor, and not after close() or finish(). Objects that the handlers
  /// refer to must live until then.
  struct Handlers {
    /// Takes a message, numbered or aside. May throw CoordinatorError, which ends the connection with that
    /// error.
    std::function<void(std::string_view payload)> message{};
    /// Tells that a frame of a channel or an acknowledgement came, which shows that the peer lives.
    std::function<void()> heard{};
    /// Takes a channel that the peer opened, for what `payload` says; close it to refuse. May throw as
    /// `message`.
    std::function<void(std::string_view payload, std::shared_ptr<Channel>)> channel_opened{};
    /// Tells that the connection that carried the session has ended. Another one can take its place, if the
    /// session is resumable.
    std::function<void(const ConnectionEnd&)> ended{};
  };

  /// `resumable`, `dialled`: as for SessionState.
  WireSession(boost::asio::any_io_executor executor, Handlers handlers, bool resumable, bool dialled);
  ~WireSession();
  WireSession(const WireSession&) = delete;
  WireSession& operator=(const WireSession&) = delete;

  /// Lets `connection` carry the session from now on, and closes the one that did before. Each end has said
  /// over it how much it has received (in a hello; nothing at first). Frames that the peer lacks, after
  /// `peer_received` frames, are sent again. Throws CoordinatorError (mend) if the peer claims an impossible
  /// number.
  void carry(std::shared_ptr<Connection> connection, std::uint64_t peer_received);

  /// Does the same as carry(), for a connection over which nothing has been said: this end says how much it
  /// has received, and sends nothing else until the other end, which has to call this as well, has also said
  /// so.
  void move_to(std::shared_ptr<Connection> connection);

  /// Gives up the connection; the session waits for another.
  void put_down();

  /// Queues a message, which begins with a byte of 0x20 or more. `settled` (optional) runs when the peer has
  /// the message, or the session is over; if the session is not resumable: when the message has been written,
  /// or cannot be any more. Throws nothing: a session that keeps too much ends its connection (Errc::lost,
  /// given up).
  void send(std::string_view payload, std::function<void()> settled = nullptr);

  /// Queues bytes that are lost with the connection, or if there is no connection.
  void send_aside(std::string_view payload);

  /// Acknowledges all received frames now, and not after a while.
  void acknowledge();

  std::uint64_t received_count() const { return state_.received(); }

  /// Whether a connection carries the session, or is about to.
  bool connected() const { return connection_ != nullptr || arriving_ != nullptr; }

  /// Opens a channel; `payload` says what it is for.
  std::shared_ptr<Channel> open_channel(std::string_view payload);

  /// Ends the session, its connection and its channels after all that was sent before.
  void finish(const std::string& reason);

  /// Ends the session, its connection and its channels now.
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
  /// The number of bytes that channels may add to those that wait already.
  std::size_t room() const;
  void tell_writable();
  std::shared_ptr<Line> find(std::uint32_t channel) const;
  void close_channels(const std::string& reason);

  boost::asio::any_io_executor executor_;
  Handlers handlers_;
  bool resumable_;
  bool finished_ = false;
  bool ack_armed_ = false;
  /// Whether overflow() is under way.
  bool overflows_ = false;
  std::shared_ptr<Connection> connection_;
  /// The connection over which the peer has not said yet how much it has received.
  std::shared_ptr<Connection> arriving_;
  SessionState state_;
  boost::asio::steady_timer ack_timer_;
  /// The callbacks of send(), by the number of their message.
  std::deque<std::pair<std::uint64_t, std::function<void()>>> unsettled_;
  /// The open channels; whoever uses a channel owns it.
  std::map<std::uint32_t, std::weak_ptr<Line>> channels_;
};

}  // namespace muster::rendezvous
