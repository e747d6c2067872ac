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
#include <cstddef>
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

/// Until when an answer is waited for.
struct Limit {
  Clock::time_point deadline{};
  int interrupt = -1;
};

void wait_for(int fd, short events, const Limit& limit) {
  for (;;) {
    pollfd watched[] = {{fd, events, 0}, {limit.interrupt, POLLIN, 0}};
    const int ready = ::poll(watched, 2, poll_time(limit.deadline));
    if (ready > 0 && watched[1].revents != 0) throw Interrupted();
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) fail("poll", errno);
    if (Clock::now() >= limit.deadline)
      throw NoAnswer("its launcher does not answer; it may be stopped (SIGSTOP), or be ending just now");
  }
}

bool must_wait(int error) {
  return error == EINTR || error == EAGAIN;
}

void send_all(int fd, std::string_view bytes, const Limit& limit) {
  while (!bytes.empty()) {
    wait_for(fd, POLLOUT, limit);
    const ssize_t size = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size < 0 && !must_wait(errno)) fail("its launcher takes no question", errno);
    bytes.remove_prefix(size > 0 ? static_cast<std::size_t>(size) : 0);
  }
}

}  // namespace

JobCall::JobCall(const std::string& path, const std::string& question, std::chrono::milliseconds at_most,
                 int interrupt)
    : fd_(connect_to(path)), interrupt_(interrupt) {
  if (!fd_) fail("its launcher cannot be reached", errno);
  send_all(fd_.get(), question + "\n", {Clock::now() + at_most, interrupt_});
}

std::string JobCall::line(std::chrono::milliseconds at_most) {
  const Limit limit{Clock::now() + at_most, interrupt_};
  char buffer[65536];
  std::size_t end = rest_.find('\n');
  while (end == std::string::npos) {
    wait_for(fd_.get(), POLLIN, limit);
    const ssize_t size = ::read(fd_.get(), buffer, sizeof buffer);
    if (size < 0 && must_wait(errno)) continue;
    if (size < 0) fail("its answer cannot be read", errno);
    if (size == 0)
      throw NoAnswer("its launcher hung up: it ends just now, or has too many questions to answer");
    const std::size_t before = rest_.size();
    rest_.append(buffer, static_cast<std::size_t>(size));
    if (rest_.size() > kAnswerBytesMax) throw NoAnswer("its answer is too long");
    end = rest_.find('\n', before);
  }
  std::string line = rest_.substr(0, end);
  rest_.erase(0, end + 1);
  return line;
}

std::string ask_job(const std::string& path, const agent::NodeQuery& query, std::chrono::milliseconds at_most,
                    int interrupt) {
  const auto begin = Clock::now();
  JobCall call(path, agent::to_json(query), at_most, interrupt);
  return call.line(at_most - std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin));
}

bool is_listening(const std::string& path) {
  // A listener whose queue is full is one, too.
  return connect_to(path) || errno == EAGAIN;
}

}  // namespace muster::launcher
