// SPDX-License-Identifier: Apache-2.0
// Frames over a stream, in both directions; used by both sides. Includes Asio.
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
  /// lost: nothing can be sent either. Another code: the peer broke the protocol and may be told so before
  /// finish().
  Errc code = Errc::lost;
  /// The transport failed (a reset, no acknowledgement), and the peer's process may live on. False: the peer
  /// ended the connection itself.
  bool broken = false;
  std::string reason{};
  /// We ended it, because the peer leaves too much unread or unacknowledged.
  bool given_up = false;
};

/// One thread, the executor's. Create with std::make_shared.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// Called from the executor, never from inside a call of this class, and not after close(). What they refer
  /// to must live until close().
  struct Handlers {
    /// A frame's body (frame.hpp). May throw CoordinatorError to end the connection with that error.
    std::function<void(std::string_view body)> frame{};
    /// Everything that was queued has been written.
    std::function<void()> drained{};
    /// Once; nothing is received any more.
    std::function<void(const ConnectionEnd&)> ended{};
  };

  /// `name`: what texts call it.
  Connection(boost::asio::any_io_executor executor, std::unique_ptr<ByteStream> stream, Handlers handlers,
             std::string name = "the control connection");

  /// Begins to read. Frames over `frame_limit` bytes end the connection. `first_bytes`: what was read from
  /// the stream before.
  void start(std::size_t frame_limit, std::string first_bytes = {});

  /// From the next frame on.
  void set_frame_limit(std::size_t bytes) { decoder_.set_limit(bytes); }

  /// Calls these handlers from now on; for a connection that turns out to carry on an older session.
  void handle(Handlers handlers) { handlers_ = std::make_shared<const Handlers>(std::move(handlers)); }

  /// Queues one encoded frame; a peer that leaves more than kMaxUnreadControlBytes unread is cut.
  void send(std::string frame);

  /// Bytes queued and not yet taken by the stream.
  std::size_t queued() const { return queued_bytes_ + in_flight_.size(); }

  /// It has ended, or is about to: nothing sent now arrives.
  bool closed() const { return closed_ || ended_ || finishing_; }

  /// Ends the connection when what is queued has been written, after kHelloTimeout at the latest. Nothing
  /// more is delivered.
  void finish();

  /// Ends the connection now.
  void close();

  /// Ends the connection now, but so that the peer sees a broken line and waits for another connection.
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
  /// Shared, because a handler may put others in its place while it runs.
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
