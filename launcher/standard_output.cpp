// SPDX-License-Identifier: Apache-2.0
#include "launcher/standard_output.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/inspect/job_client.hpp"
#include "rendezvous/base/posix.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>

namespace muster::launcher {
namespace {

constexpr const char* kUnwritable = "stdout cannot be written; check the disk or the program that reads it";

}  // namespace

int print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return kExitSuccess;
  throw LaunchError(kExitLauncherFailure, kUnwritable);
}

std::size_t write_some(std::string_view text, int interrupt) {
  while (!text.empty()) {
    pollfd watched[] = {{STDOUT_FILENO, POLLOUT, 0}, {interrupt, POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0 && errno != EINTR) throw_errno("poll");
    if (watched[0].revents == 0 && watched[1].revents != 0) return 0;
    if (watched[0].revents == 0) continue;
    // A pipe that is ready takes so many bytes, and does not hold us up.
    const ssize_t size = ::write(STDOUT_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (size < 0 && errno != EINTR && errno != EAGAIN) throw LaunchError(kExitLauncherFailure, kUnwritable);
    if (size > 0) return static_cast<std::size_t>(size);
  }
  return 0;
}

void write_out(std::string_view text, int interrupt) {
  while (!text.empty()) {
    const std::size_t size = write_some(text, interrupt);
    if (size == 0) throw Interrupted();
    text.remove_prefix(size);
  }
}

}  // namespace muster::launcher
