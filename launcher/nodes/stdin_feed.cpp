// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/stdin_feed.hpp"

#include "agent/core/link_message.hpp"
#include "agent/process/output/worker_output.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace muster::launcher {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

namespace {

/// Pipes, terminals and sockets; a file or the null device is always ready, and epoll refuses it.
bool can_be_waited_for(int fd) {
  struct stat status {};

  if (::fstat(fd, &status) != 0) return false;
  return S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || ::isatty(fd) == 1;
}

}  // namespace

struct StdinFeed::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, int borrowed_fd, std::function<void(std::string)> to)
      : fd(borrowed_fd), descriptor(executor), send(std::move(to)) {
    if (!can_be_waited_for(fd)) return;
    // A descriptor of its own: Asio closes what it is given.
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy >= 0) descriptor.assign(copy);
  }

  void wait() {
    if (waiting || ended || outstanding >= agent::kLinkWindowBytes) return;
    waiting = true;
    auto read = [weak = weak_from_this()](const boost::system::error_code& error = {}) {
      const auto self = weak.lock();
      if (!self || error) return;
      self->waiting = false;
      self->read();
    };
    if (descriptor.is_open())
      descriptor.async_wait(Descriptor::wait_read, std::move(read));
    else
      asio::post(descriptor.get_executor(), [read = std::move(read)] { read(); });
  }

  void read() {
    if (ended) return;
    std::array<char, agent::kLinkPieceBytes> buffer;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return wait();
    if (got <= 0) return end();
    outstanding += got;
    send(std::string(buffer.data(), static_cast<std::size_t>(got)));
    wait();
  }

  void end() {
    if (!std::exchange(ended, true)) send({});
  }

  int fd;
  Descriptor descriptor;
  std::function<void(std::string)> send;
  std::int64_t outstanding = 0;
  bool waiting = false;
  bool ended = false;
};

StdinFeed::StdinFeed(const asio::any_io_executor& executor, int fd, std::function<void(std::string)> send)
    : state_(std::make_shared<State>(executor, fd, std::move(send))) {}

StdinFeed::~StdinFeed() {
  state_->ended = true;
  boost::system::error_code ignored;
  state_->descriptor.close(ignored);
}

void StdinFeed::start() {
  // Reading a terminal from the background would stop us.
  if (!agent::console_is_foreground(state_->fd)) return state_->end();
  state_->wait();
}

void StdinFeed::next_reader() {
  state_->outstanding = 0;
  if (state_->ended)
    state_->send({});
  else
    state_->wait();
}

void StdinFeed::taken(std::int64_t bytes) {
  state_->outstanding -= bytes;
  state_->wait();
}

}  // namespace muster::launcher
