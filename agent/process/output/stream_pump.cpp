// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/stream_pump.hpp"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;

namespace {

/// Chunks read before other streams get their turn.
constexpr int kChunksPerTurn = 4;
/// How long a grandchild may hold a stream open after its worker's end.
constexpr auto kPatience = std::chrono::seconds(1);
/// The largest pipe an ordinary user can have (fs.pipe-max-size): more cannot have been left behind.
constexpr std::size_t kLargestPipe = std::size_t{1} << 20;

/// Reads like read(2), but reports an error only when it comes twice in a row. A pty answers EIO when its
/// other end is closed, although what was written just before may still be on its way between the two ends;
/// the next read waits for that and has it.
ssize_t read_to_the_end(int fd, std::vector<char>& buffer) {
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got >= 0 || errno == EAGAIN || errno == EINTR) return got;
  return ::read(fd, buffer.data(), buffer.size());
}

}  // namespace

StreamPump::StreamPump(const asio::any_io_executor& executor, UniqueFd fd,
                       std::shared_ptr<std::vector<char>> buffer, Owner owner)
    : stream_(executor), patience_(executor), buffer_(std::move(buffer)), owner_(std::move(owner)) {
  stream_.assign(fd.get());
  fd.release();
}

void StreamPump::start() {
  wait();
}

void StreamPump::resume() {
  if (!paused_ || closed_) return;
  paused_ = false;
  read_some();
}

void StreamPump::expect_end() {
  if (closed_ || worker_is_gone_) return;
  worker_is_gone_ = true;
  // There may be room again that we have not been told of yet; read_some() asks.
  paused_ = false;
  read_some(kLargestPipe);
  if (closed_) return;
  patience_.expires_after(kPatience);
  patience_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->closed_) return;
    self->last_call_ = true;
    self->last_bytes_ = kLargestPipe;
    if (!self->paused_) self->read_some();
  });
}

void StreamPump::give_up() {
  if (!closed_) finish();
}

void StreamPump::abandon() {
  owner_.closed = nullptr;
  give_up();
}

void StreamPump::wait() {
  if (waiting_ || closed_) return;
  waiting_ = true;
  const auto on_ready = [self = shared_from_this()](const boost::system::error_code& error) {
    self->waiting_ = false;
    if (!error && !self->closed_ && !self->paused_) self->read_some();
  };
  stream_.async_wait(asio::posix::stream_descriptor::wait_read, on_ready);
}

/// Reads the chunks of one turn, and more until `least` bytes have been read or there is nothing more.
void StreamPump::read_some(std::size_t least) {
  // `deliver` may destroy our owner's reference to us.
  const auto self = shared_from_this();
  std::size_t taken = 0;
  for (int chunk = 0; (chunk < kChunksPerTurn || taken < least) && !closed_; ++chunk) {
    if (owner_.blocked()) {
      paused_ = true;
      return;
    }
    const ssize_t got = read_to_the_end(stream_.native_handle(), *buffer_);
    if (got < 0 && errno == EINTR) continue;
    const bool empty_now = got < 0 && errno == EAGAIN;
    // A pty whose other end is closed answers EIO where a pipe answers 0.
    if (got == 0 || (got < 0 && !empty_now) || (empty_now && last_call_)) return finish();
    if (empty_now) break;
    const auto size = static_cast<std::size_t>(got);
    taken += size;
    owner_.deliver(std::string_view(buffer_->data(), size));
    if (!last_call_) continue;
    if (size >= last_bytes_) return finish();
    last_bytes_ -= size;
  }
  wait();
}

void StreamPump::finish() {
  closed_ = true;
  paused_ = false;
  patience_.cancel();
  boost::system::error_code ignored;
  stream_.close(ignored);
  if (owner_.closed) std::exchange(owner_.closed, nullptr)();
}

}  // namespace muster::agent
