// SPDX-License-Identifier: Apache-2.0
#include "launcher/files/ends_within.hpp"

#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>

namespace muster::launcher {
namespace {

/// For the end of one that was killed and is not held.
constexpr std::chrono::milliseconds kDiesWithin{100};
constexpr int kParts = 10;

bool has_ended_by(int pidfd, std::chrono::steady_clock::time_point until) {
  for (;;) {
    pollfd watched{pidfd, POLLIN, 0};
    const int ready = ::poll(&watched, 1, poll_time(until));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw_errno("poll");
    if (ready == 0 && steady_now() >= until) return false;
  }
}

/// In parts, of which a pause of the whole machine takes one: it is no silence of whom we wait for.
bool has_ended(int pidfd, std::chrono::milliseconds at_most) {
  for (int part = 0; part < kParts; ++part)
    if (has_ended_by(pidfd, steady_now() + at_most / kParts)) return true;
  return false;
}

}  // namespace

bool ends_within(std::chrono::milliseconds at_most, const std::function<void()>& work) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw_errno("cannot start a process: fork");
  if (pid == 0) {
    try {
      work();
    } catch (const std::exception&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  const UniqueFd pidfd = open_pidfd(pid);
  if (!pidfd) throw_errno(kNoPidfd);
  const bool ended = has_ended(pidfd.get(), at_most);
  if (!ended) {
    ::kill(pid, SIGKILL);
    has_ended(pidfd.get(), kDiesWithin);
  }
  ::waitpid(pid, nullptr, WNOHANG);
  return ended;
}

void check_folder_answers(const std::string& what, const std::string& folder) {
  if (folder.empty()) return;
  const auto list = [&folder] { static_cast<void>(std::filesystem::directory_iterator{folder}); };
  if (!ends_within(kFolderAnswersWithin, list))
    throw LaunchError(kExitLauncherFailure, what + " " + folder + ": its file system has not answered for " +
                                                std::to_string(kFolderAnswersWithin.count()) +
                                                " s; see whether its server can be reached");
}

}  // namespace muster::launcher
