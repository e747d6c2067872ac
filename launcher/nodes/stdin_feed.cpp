// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/stdin_feed.hpp"

#include "agent/core/link_message.hpp"
#include "agent/process/output/worker_output.hpp"
#include "rendezvous/base/while_alive.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

namespace muster::launcher {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

namespace {

/// Whether epoll takes the descriptor, which is so for pipes, terminals and sockets; a file or the null
/// device is always ready, and epoll refuses it.
bool can_be_waited_for(int fd) {
  struct stat status {};

  if (::fstat(fd, &status) != 0) return false;
  return S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || ::isatty(fd) == 1;
}

}  // namespace

struct StdinFeed::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, int borrowed_fd) : fd(borrowed_fd), descriptor(executor) {
    // Reading a terminal from the background would stop us.
    ended = !agent::console_is_foreground(fd);
    if (ended || !can_be_waited_for(fd)) return;
    // Asio gets a descriptor of its own, because it closes what it is given.
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy >= 0) descriptor.assign(copy);
  }

  void wait() {
    if (waiting || ended || !reader || reader->writable() == 0) return;
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
    std::array<char, agent::kLinkPieceBytes> buffer;
    const std::size_t room = ended || !reader ? 0 : std::min(buffer.size(), reader->writable());
    if (room == 0) return;
    const ssize_t got = ::read(fd, buffer.data(), room);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return wait();
    if (got <= 0) return end();
    reader->send(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
    wait();
  }

  void end() {
    ended = true;
    if (reader) reader->close(std::string(agent::kAllWasSent));
  }

  int fd;
  Descriptor descriptor;
  std::shared_ptr<rendezvous::Channel> reader;
  bool waiting = false;
  bool ended = false;
};

StdinFeed::StdinFeed(const asio::any_io_executor& executor, int fd)
    : state_(std::make_shared<State>(executor, fd)) {}

StdinFeed::~StdinFeed() {
  state_->ended = true;
  boost::system::error_code ignored;
  state_->descriptor.close(ignored);
}

void StdinFeed::feed(std::shared_ptr<rendezvous::Channel> reader) {
  state_->reader = std::move(reader);
  if (!state_->reader) return;
  if (state_->ended) return state_->end();
  rendezvous::Channel::Handlers handlers;
  handlers.writable = while_alive(std::weak_ptr<State>(state_), &State::wait);
  state_->reader->handle(std::move(handlers));
  state_->wait();
}

}  // namespace muster::launcher
