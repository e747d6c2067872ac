// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/store/stream.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace muster {
namespace {

/// The answer of getaddrinfo(). `error` is empty on success.
struct Answer {
  std::vector<SocketAddress> addresses;
  std::string error;
  bool name_needed = false;
};

Answer look_up(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  const int system_error = errno;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, [](addrinfo* head) {
    if (head != nullptr) freeaddrinfo(head);
  });
  Answer answer;
  if (code != 0) {
    answer.name_needed = code == EAI_NONAME;
    answer.error = code == EAI_SYSTEM ? std::generic_category().message(system_error) : gai_strerror(code);
    return answer;
  }
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    answer.addresses.push_back(address);
  }
  if (answer.addresses.empty()) answer.error = "no address";
  return answer;
}

/// The state of a look-up. The look-up thread shares it, because that thread may outlive the call that
/// started it.
struct Pending {
  std::mutex mutex;
  std::condition_variable done_signal;
  bool done = false;
  Answer answer;
};

Answer look_up_name(const std::string& host, int port, std::chrono::steady_clock::time_point deadline) {
  const auto pending = std::make_shared<Pending>();
  quiet_thread([pending, host, port] {
    Answer answer = look_up(host, port, AI_ADDRCONFIG);
    const std::lock_guard lock(pending->mutex);
    pending->answer = std::move(answer);
    pending->done = true;
    pending->done_signal.notify_all();
  }).detach();
  std::unique_lock lock(pending->mutex);
  if (!pending->done_signal.wait_until(lock, deadline, [&] { return pending->done; })) {
    Answer late;
    late.error = "the name service gave no answer in time";
    return late;
  }
  return std::move(pending->answer);
}

}  // namespace

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

std::vector<SocketAddress> resolve(const std::string& host, int port,
                                   std::chrono::steady_clock::time_point deadline) {
  Answer answer = look_up(host, port, AI_NUMERICHOST);
  if (answer.name_needed) answer = look_up_name(host, port, deadline);
  if (!answer.error.empty()) throw std::runtime_error("cannot resolve '" + host + "': " + answer.error);
  return std::move(answer.addresses);
}

}  // namespace muster
