// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/job_client.hpp"

#include "launcher/inspect/core/job_query.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

namespace muster::launcher {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what, int error) {
  throw NoAnswer(what + ": " + std::generic_category().message(error));
}

/// Returns a connected socket; an empty one, with errno, if there is none.
UniqueFd connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return {};
  }
  path.copy(address.sun_path, path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

void wait_for(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    pollfd watched{fd, events, 0};
    const int ready = ::poll(&watched, 1, poll_time(deadline));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) fail("poll", errno);
    if (Clock::now() >= deadline)
      throw NoAnswer("its launcher does not answer; it may be stopped (SIGSTOP), or be ending just now");
  }
}

bool must_wait(int error) {
  return error == EINTR || error == EAGAIN;
}

void send_all(int fd, std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    wait_for(fd, POLLOUT, deadline);
    const ssize_t size = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size < 0 && !must_wait(errno)) fail("its launcher takes no question", errno);
    bytes.remove_prefix(size > 0 ? static_cast<std::size_t>(size) : 0);
  }
}

std::string read_line(int fd, Clock::time_point deadline) {
  std::string line;
  char buffer[65536];
  while (line.empty() || line.back() != '\n') {
    wait_for(fd, POLLIN, deadline);
    const ssize_t size = ::read(fd, buffer, sizeof buffer);
    if (size < 0 && must_wait(errno)) continue;
    if (size < 0) fail("its answer cannot be read", errno);
    if (size == 0)
      throw NoAnswer("its launcher hung up: it ends just now, or has too many questions to answer");
    line.append(buffer, static_cast<std::size_t>(size));
    if (line.size() > kAnswerBytesMax) throw NoAnswer("its answer is too long");
  }
  line.pop_back();
  return line;
}

}  // namespace

std::string ask_job(const std::string& path, const agent::NodeQuery& query, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  const UniqueFd fd = connect_to(path);
  if (!fd) fail("its launcher cannot be reached", errno);
  send_all(fd.get(), agent::to_json(query) + "\n", deadline);
  return read_line(fd.get(), deadline);
}

bool is_listening(const std::string& path) {
  // A listener whose queue is full is one, too.
  return connect_to(path) || errno == EAGAIN;
}

}  // namespace muster::launcher
