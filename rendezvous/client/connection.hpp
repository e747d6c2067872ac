// SPDX-License-Identifier: Apache-2.0
// Control messages over a stream, in both directions; used by both sides. Includes Asio.
#pragma once

#include "rendezvous/net/byte_stream.hpp"
#include "rendezvous/protocol/frame.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/protocol/message.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

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
};

/// Frames of a stream as messages. One thread, the executor's. Create with std::make_shared.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// Called from the executor, never from inside a call of this class, and not after close(). What they refer
  /// to must live until close().
  struct Handlers {
    /// May throw CoordinatorError to end the connection with that error. `bytes`: of its frame.
    std::function<void(const Message&, std::size_t bytes)> message{};
    /// The body of a channel's frame (raw_frame.hpp); may throw likewise. Empty: none is expected.
    std::function<void(std::string_view body)> raw{};
    /// Everything that was queued has been written.
    std::function<void()> drained{};
    /// Once; nothing is received any more.
    std::function<void(const ConnectionEnd&)> ended{};
  };

  Connection(boost::asio::any_io_executor executor, std::unique_ptr<ByteStream> stream, Handlers handlers);

  /// Begins to read. Frames over `frame_limit` bytes end the connection.
  void start(std::size_t frame_limit);

  /// Call it after the peer's hello: sets its version for error texts, and the full frame limit.
  void greeted(int peer_version);

  /// Calls these handlers from now on; for a connection that turns out to carry on an older session.
  void handle(Handlers handlers) { handlers_ = std::make_shared<const Handlers>(std::move(handlers)); }

  /// Queues; a peer that leaves more than kMaxUnreadControlBytes unread is cut.
  void send(const Message& message) { send_frames(encode_frame(to_json(message))); }

  /// As send(), for whole frames that are encoded already.
  void send_frames(std::string_view frames);

  /// Bytes queued and not yet taken by the stream.
  std::size_t queued() const { return queued_.size() + in_flight_.size(); }

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
  void deliver(std::string body);
  void write_queued();
  void write_ended(const std::exception_ptr& error);
  void fail(const std::exception_ptr& error);
  void fail(const ConnectionEnd& end);
  void close_later(Milliseconds delay);

  boost::asio::any_io_executor executor_;
  std::unique_ptr<ByteStream> stream_;
  /// Shared, because a handler may put others in its place while it runs.
  std::shared_ptr<const Handlers> handlers_;
  FrameDecoder decoder_{kMaxHelloFrameBytes};
  int peer_version_ = 0;
  std::string queued_;
  std::string in_flight_;
  boost::asio::steady_timer end_timer_;
  bool writing_ = false;
  bool choked_ = false;
  bool ended_ = false;
  bool finishing_ = false;
  bool closed_ = false;
};

}  // namespace muster::rendezvous
