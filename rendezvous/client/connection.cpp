// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/connection.hpp"

#include "rendezvous/protocol/raw_frame.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include <utility>
#include <vector>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

/// One read takes this much at most: most messages fit, and a long frame costs few calls.
constexpr std::size_t kReadBytes = 16384;

}  // namespace

Connection::Connection(asio::any_io_executor executor, std::unique_ptr<ByteStream> stream, Handlers handlers)
    : executor_(std::move(executor)),
      stream_(std::move(stream)),
      handlers_(std::make_shared<const Handlers>(std::move(handlers))),
      end_timer_(executor_) {}

void Connection::start(std::size_t frame_limit) {
  decoder_.set_limit(frame_limit);
  asio::co_spawn(executor_, read_loop(),
                 [self = shared_from_this()](const std::exception_ptr& error) { self->fail(error); });
}

void Connection::greeted(int peer_version) {
  peer_version_ = peer_version;
  decoder_.set_limit(kMaxControlFrameBytes);
}

void Connection::send_frames(std::string_view frames) {
  if (closed_ || finishing_ || choked_ || frames.empty()) return;
  queued_ += frames;
  if (queued() > kMaxUnreadControlBytes) {
    choked_ = true;
    asio::post(executor_, [self = shared_from_this()] {
      self->fail({Errc::lost, false,
                  "the peer does not read: over " + std::to_string(kMaxUnreadControlBytes) +
                      " bytes of control messages wait for it"});
    });
    return;
  }
  if (!writing_) write_queued();
}

void Connection::write_queued() {
  writing_ = true;
  asio::co_spawn(executor_, write_loop(),
                 [self = shared_from_this()](const std::exception_ptr& error) { self->write_ended(error); });
}

void Connection::finish() {
  if (closed_) return;
  finishing_ = true;
  if (writing_)
    close_later(kHelloTimeout);
  else
    close();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  end_timer_.cancel();
  stream_->close();
}

void Connection::abort() {
  if (closed_) return;
  closed_ = true;
  end_timer_.cancel();
  stream_->abort();
}

asio::awaitable<void> Connection::read_loop() {
  std::vector<char> buffer(kReadBytes);
  const asio::mutable_buffer target = asio::buffer(buffer);
  while (!closed_) {
    const std::size_t received = co_await stream_->read_some(target);
    std::string_view bytes(buffer.data(), received);
    while (!bytes.empty() && !closed_) {
      bytes.remove_prefix(decoder_.feed(bytes));
      if (decoder_.ready()) deliver(decoder_.take());
    }
  }
}

void Connection::deliver(std::string body) {
  if (finishing_) return;
  const std::shared_ptr<const Handlers> told = handlers_;
  if (is_raw_body(body) && told->raw)
    told->raw(body);
  else
    told->message(message_from_json(body, peer_version_), body.size() + kFrameHeaderBytes);
}

asio::awaitable<void> Connection::write_loop() {
  while (!queued_.empty() && !closed_) {
    in_flight_ = std::exchange(queued_, std::string());
    const asio::const_buffer source = asio::buffer(in_flight_);
    co_await stream_->write_all(source);
    in_flight_.clear();
  }
}

void Connection::write_ended(const std::exception_ptr& error) {
  writing_ = false;
  if (closed_) return;
  if (error) {
    // The peer is going away, perhaps after a last message that says why: reading finds both. writing_ stays
    // set, so that nothing more is written.
    writing_ = true;
    close_later(std::chrono::seconds(1));
  } else if (!queued_.empty()) {
    write_queued();
  } else if (finishing_) {
    close();
  } else if (const auto told = handlers_; told->drained) {
    told->drained();
  }
}

void Connection::close_later(Milliseconds delay) {
  end_timer_.expires_after(delay);
  end_timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error) self->fail({Errc::lost, true, "the peer takes no more messages"});
  });
}

void Connection::fail(const std::exception_ptr& error) {
  if (!error || closed_) return;
  try {
    std::rethrow_exception(error);
  } catch (const CoordinatorError& protocol) {
    fail({protocol.code(), false, protocol.what()});
  } catch (const boost::system::system_error& system) {
    if (system.code() != asio::error::eof)
      fail({Errc::lost, true, "the control connection broke: " + system.code().message()});
    else if (decoder_.inside_frame())
      fail({Errc::lost, false, "the peer closed the control connection in the middle of a message"});
    else
      fail({Errc::lost, false, "the peer closed the control connection"});
  } catch (const std::exception& other) {
    fail({Errc::lost, false, std::string("the control connection failed: ") + other.what()});
  }
}

void Connection::fail(const ConnectionEnd& end) {
  if (closed_ || ended_) return;
  if (finishing_) {
    close();
    return;
  }
  ended_ = true;
  if (end.code == Errc::lost) close();
  const std::shared_ptr<const Handlers> told = handlers_;
  told->ended(end);
}

}  // namespace muster::rendezvous
