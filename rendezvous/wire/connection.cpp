// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/connection.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <string.h>

#include <exception>
#include <utility>
#include <vector>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

/// The most bytes of one read: most messages fit, and a long frame costs few calls.
constexpr std::size_t kReadBytes = 16384;

/// Overwrites bytes that were sent, because they may have been a key.
void cleanse(std::string& bytes) {
  ::explicit_bzero(bytes.data(), bytes.size());
  bytes.clear();
}

}  // namespace

Connection::Connection(asio::any_io_executor executor, std::unique_ptr<ByteStream> stream, Handlers handlers,
                       std::string name)
    : executor_(std::move(executor)),
      stream_(std::move(stream)),
      handlers_(std::make_shared<const Handlers>(std::move(handlers))),
      name_(std::move(name)),
      end_timer_(executor_) {}

void Connection::start(std::size_t frame_limit, std::string first_bytes) {
  decoder_.set_limit(frame_limit);
  if (first_bytes.empty()) return spawn_read_loop();
  asio::post(executor_, [self = shared_from_this(), bytes = std::move(first_bytes)] {
    try {
      self->take(bytes);
    } catch (const std::exception&) {
      return self->fail(std::current_exception());
    }
    self->spawn_read_loop();
  });
}

void Connection::spawn_read_loop() {
  asio::co_spawn(executor_, read_loop(),
                 [self = shared_from_this()](const std::exception_ptr& error) { self->fail(error); });
}

void Connection::send(std::string frame) {
  if (closed_ || finishing_ || choked_) return;
  queued_bytes_ += frame.size();
  queued_.push_back(std::move(frame));
  if (queued() + queued_.size() * kPerWaitingFrame > kMaxUnreadControlBytes) {
    choked_ = true;
    asio::post(executor_, [self = shared_from_this()] {
      ConnectionEnd end;
      end.reason = "the peer does not read: over " + std::to_string(kMaxUnreadControlBytes) +
                   " bytes of messages wait for it";
      end.given_up = true;
      self->fail(end);
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
  drop();
  stream_->close();
}

void Connection::abort() {
  if (closed_) return;
  drop();
  stream_->abort();
}

void Connection::drop() {
  closed_ = true;
  end_timer_.cancel();
  for (std::string& frame : queued_) cleanse(frame);
  queued_.clear();
  queued_bytes_ = 0;
}

asio::awaitable<void> Connection::read_loop() {
  std::vector<char> buffer(kReadBytes);
  const asio::mutable_buffer target = asio::buffer(buffer);
  while (!closed_) {
    const std::size_t received = co_await stream_->read_some(target);
    take(std::string_view(buffer.data(), received));
  }
}

void Connection::take(std::string_view bytes) {
  while (!bytes.empty() && !closed_) {
    bytes.remove_prefix(decoder_.feed(bytes));
    if (decoder_.ready()) deliver(decoder_.take());
  }
}

void Connection::deliver(const std::string& body) {
  if (finishing_) return;
  const std::shared_ptr<const Handlers> told = handlers_;
  told->frame(body);
}

asio::awaitable<void> Connection::write_loop() {
  while (!queued_.empty() && !closed_) {
    fill_in_flight();
    const asio::const_buffer source = asio::buffer(in_flight_);
    co_await stream_->write_all(source);
    cleanse(in_flight_);
    if (in_flight_.capacity() > kKeptBufferBytes) in_flight_ = {};
  }
}

/// Fills the write buffer: with the waiting frames that fit, or, if another process may write behind us, with
/// the whole frames that the stream takes at once.
void Connection::fill_in_flight() {
  const std::size_t atomic = stream_->atomic_write();
  const std::size_t most = atomic != 0 ? atomic : kKeptBufferBytes;
  std::size_t bytes = queued_.front().size();
  std::size_t count = 1;
  while (count < queued_.size() && bytes + queued_[count].size() <= most) bytes += queued_[count++].size();
  queued_bytes_ -= bytes;
  in_flight_.reserve(bytes);  // reserved, because growing would leave a copy behind
  for (; count > 0; --count) {
    in_flight_ += queued_.front();
    cleanse(queued_.front());
    queued_.pop_front();
  }
}

void Connection::write_ended(const std::exception_ptr& error) {
  writing_ = false;
  if (error) cleanse(in_flight_);
  if (closed_) return;
  if (error) {
    // The peer is going away, perhaps after a last message that says why: reading finds both. writing_ stays
    // set, so that no more is written.
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
    if (!error) self->fail(ConnectionEnd{Errc::lost, true, "the peer takes no more messages"});
  });
}

void Connection::fail(const std::exception_ptr& error) {
  if (!error || closed_) return;
  try {
    std::rethrow_exception(error);
  } catch (const CoordinatorError& protocol) {
    fail(ConnectionEnd{protocol.code(), false, protocol.what()});
  } catch (const boost::system::system_error& system) {
    if (system.code() != asio::error::eof)
      fail(ConnectionEnd{Errc::lost, true, name_ + " broke: " + system.code().message()});
    else if (decoder_.inside_frame())
      fail(ConnectionEnd{Errc::lost, false, "the peer closed " + name_ + " in the middle of a message"});
    else
      fail(ConnectionEnd{Errc::lost, false, "the peer closed " + name_});
  } catch (const std::exception& other) {
    fail(ConnectionEnd{Errc::lost, false, name_ + " failed: " + other.what()});
  }
}

void Connection::fail(const ConnectionEnd& end) {
  if (closed_) return;
  if (finishing_) {
    close();
    return;
  }
  if (ended_) return;
  ended_ = true;
  if (end.code == Errc::lost) close();
  const std::shared_ptr<const Handlers> told = handlers_;
  told->ended(end);
}

}  // namespace muster::rendezvous
