// SPDX-License-Identifier: Apache-2.0
#include "launcher/files/line_file.hpp"

#include "rendezvous/base/output_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace muster::launcher {
namespace {

/// How long a full pipe is waited for before it is asked whether to leave.
constexpr int kPollMs = 50;

std::string words(int error) {
  return std::strerror(error);
}

}  // namespace

/// A link that was put there since is not followed, and no terminal becomes ours.
std::string LineFile::open() {
  const OutputPlace place = find_output(path_);
  if (!place.obstacle.empty()) return place.obstacle;
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY;
  if (place.is_file)
    fd_ = UniqueFd(::open(place.path.c_str(), kFlags | O_CREAT | O_NOFOLLOW, 0600));
  else
    fd_ = UniqueFd(::open(path_.c_str(), kFlags | O_NONBLOCK));
  if (fd_) return "";
  return errno == ENXIO ? "nobody reads it" : words(errno);
}

std::string LineFile::append(const std::string& line, const std::atomic<bool>& leave) {
  if (!fd_)
    if (std::string why = open(); !why.empty()) return why;
  const std::string text = torn_ ? "\n" + line : line;
  for (;;) {
    const ssize_t size = ::write(fd_.get(), text.data(), text.size());
    if (size == static_cast<ssize_t>(text.size())) {
      torn_ = false;
      return "";
    }
    if (size > 0) {
      torn_ = true;
      return "it took a part of the line only: is the disk full?";
    }
    if (errno == EINTR) continue;
    const int error = errno;
    if (error == EPIPE) fd_.reset();  // another reader may come
    if (error != EAGAIN) return words(error);
    if (leave) return "it takes nothing for a while";
    pollfd watched{fd_.get(), POLLOUT, 0};
    (void)::poll(&watched, 1, kPollMs);
  }
}

}  // namespace muster::launcher
