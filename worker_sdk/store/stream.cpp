// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/store/stream.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/posix.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

namespace muster {

Stream::Stream(UniqueFd fd) : fd_(std::move(fd)) {
  const int flags = fcntl(fd_.get(), F_GETFL);
  if (flags < 0 || fcntl(fd_.get(), F_SETFL, flags | O_NONBLOCK) < 0) throw_errno("fcntl");
}

Stream Stream::connect(const SocketAddress& address, Deadline deadline, int waker) {
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw_errno("socket");
  Stream stream{UniqueFd(fd)};
  stream.waker_ = waker;
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  const auto* name = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(fd, name, address.length) == 0) return stream;
  // An interrupted connect continues by itself, like one in progress.
  if (errno != EINPROGRESS && errno != EINTR) throw_errno("connect");
  if (!stream.poll_for(POLLOUT, deadline, waker)) throw_errno("connect", ETIMEDOUT);
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0) throw_errno("getsockopt");
  if (error != 0) throw_errno("connect", error);
  return stream;
}

std::string Stream::local_address() const {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  auto* const name = reinterpret_cast<sockaddr*>(&storage);
  char text[NI_MAXHOST] = "";
  if (getsockname(fd_.get(), name, &length) != 0 ||
      getnameinfo(name, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return text;
}

bool Stream::poll_for(short events, Deadline deadline, int waker) {
  while (true) {
    pollfd entries[2] = {{fd_.get(), events, 0}, {waker, POLLIN, 0}};
    const int count = poll(entries, 2, poll_time(deadline));
    if (count > 0) return entries[0].revents != 0;
    if (count < 0 && errno != EINTR) throw_errno("poll");
    if (count == 0 && std::chrono::steady_clock::now() >= deadline) return false;
  }
}

bool Stream::readable(Deadline deadline) {
  return poll_for(POLLIN, deadline, waker_);
}

bool Stream::readable_before(int other, Deadline deadline) {
  return poll_for(POLLIN, deadline, other);
}

void Stream::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!poll_for(POLLOUT, deadline, waker_)) throw StreamTimeout("the server took no data in time");
    } else if (errno != EINTR) {
      throw_errno("send");
    }
  }
}

void Stream::receive(void* data, std::size_t bytes, Deadline deadline) {
  auto* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = recv(fd_.get(), next, bytes, 0);
    if (got > 0) {
      next += got;
      bytes -= static_cast<std::size_t>(got);
    } else if (got == 0) {
      throw std::runtime_error("the server closed the connection");
    } else if (errno == EAGAIN) {
      if (!poll_for(POLLIN, deadline, waker_)) throw StreamTimeout("the server gave no answer in time");
    } else if (errno != EINTR) {
      throw_errno("recv");
    }
  }
}

}  // namespace muster
