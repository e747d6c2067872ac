// SPDX-License-Identifier: Apache-2.0
// Sends and receives frames over a stream; used by both sides. Includes Asio.
#pragma once

#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/ids.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/wire/byte_stream.hpp"
#include "rendezvous/wire/frame.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace muster::rendezvous {

/// How a connection ended.
struct ConnectionEnd {
  /// The kind of the end. lost: nothing can be sent either. Another code: the peer broke the protocol and may
  /// be told so before finish().
  Errc code = Errc::lost;
  /// Whether the transport failed (a reset, no acknowledgement), so that the peer's process may live on.
  /// False: the peer ended the connection itself.
  bool broken = false;
  std::string reason{};
  /// Whether we ended the connection, because the peer leaves too much unread or unacknowledged.
  bool given_up = false;
};

/// One connection that carries frames. Used on the executor's thread only. Create with std::make_shared.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// Told about the connection, from the executor, never from inside a call of this class, and not after
  /// close(). Objects that the handlers refer to must live until close().
  struct Handlers {
    /// Takes a frame's body (frame.hpp). May throw CoordinatorError to end the connection with that error.
    std::function<void(std::string_view body)> frame{};
    /// Tells that everything that was queued has been written.
    std::function<void()> drained{};
    /// Told once; nothing is received any more.
    std::function<void(const ConnectionEnd&)> ended{};
  };

  /// `name`: the connection's name in texts.
  Connection(boost::asio::any_io_executor executor, std::unique_ptr<ByteStream> stream, Handlers handlers,
             std::string name = "the control connection");

  /// Begins to read. Frames over `frame_limit` bytes end the connection. `first_bytes`: bytes that were read
  /// from the stream before.
  void start(std::size_t frame_limit, std::string first_bytes = {});

  /// Changes the limit from the next frame on.
  void set_frame_limit(std::size_t bytes) { decoder_.set_limit(bytes); }

  /// Calls these handlers from now on; used when a new connection turns out to carry on an older session.
  void handle(Handlers handlers) { handlers_ = std::make_shared<const Handlers>(std::move(handlers)); }

  /// Queues one encoded frame; a peer that leaves more than kMaxUnreadControlBytes unread is cut.
  void send(std::string frame);

  /// The bytes that are queued and not yet taken by the stream.
  std::size_t queued() const { return queued_bytes_ + in_flight_.size(); }

  /// Whether the connection has ended or is about to, so that no frame sent now arrives.
  bool closed() const { return closed_ || ended_ || finishing_; }

  /// Ends the connection when the queued frames have been written, after kHelloTimeout at the latest. No
  /// handler is called any more.
  void finish();

  /// Ends the connection now.
  void close();

  /// Ends the connection now, in such a way that the peer sees a broken line and waits for another
  /// connection.
  void abort();

 private:
  boost::asio::awaitable<void> read_loop();
  boost::asio::awaitable<void> write_loop();
  void spawn_read_loop();
  void take(std::string_view bytes);
  void deliver(const std::string& body);
  void fill_in_flight();
  void write_queued();
  void write_ended(const std::exception_ptr& error);
  void fail(const std::exception_ptr& error);
  void fail(const ConnectionEnd& end);
  void drop();
  void close_later(Milliseconds delay);

  boost::asio::any_io_executor executor_;
  std::unique_ptr<ByteStream> stream_;
  /// The present handlers. They are shared, because a handler may replace them while it runs.
  std::shared_ptr<const Handlers> handlers_;
  std::string name_;
  FrameDecoder decoder_{kMaxHelloFrameBytes};
  std::deque<std::string> queued_;
  std::size_t queued_bytes_ = 0;
  std::string in_flight_;
  boost::asio::steady_timer end_timer_;
  bool writing_ = false;
  bool choked_ = false;
  bool ended_ = false;
  bool finishing_ = false;
  bool closed_ = false;
};

}  // namespace muster::rendezvous
