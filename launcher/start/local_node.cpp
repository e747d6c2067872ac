// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/local_node.hpp"

#include "agent/process/link_frames.hpp"
#include "agent/started_node.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/posix.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <functional>
#include <utility>

namespace muster::launcher {
namespace {

constexpr std::chrono::seconds kNoticeTimeout{1};

/// Forks a process and runs `body` in it with its end of the link; the exit code is what `body` returns. It
/// does not throw. `started` holds our ends of what else leads there.
StartedProcess fork_guardian(StartedProcess started, const std::function<int(int link)>& body) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("socketpair");
  const UniqueFd theirs(ends[1]);
  started.out.reset(ends[0]);
  started.is_client = false;
  started.pid = ::fork();
  if (started.pid < 0) throw_errno("cannot start the guardian process: fork");
  if (started.pid == 0) {
    started = {};
    ::_exit(body(theirs.get()));
  }
  started.pidfd = open_pidfd(started.pid);
  if (!started.pidfd) throw_errno(kNoPidfd);
  return started;
}

void tell_error(int notice_fd, const std::string& error) {
  using agent::LinkMessage;
  try {
    agent::write_link_message(notice_fd, {LinkMessage::Kind::notice, LinkMessage::in_words, error},
                              std::chrono::steady_clock::now() + kNoticeTimeout);
  } catch (const std::exception&) {
    // The launcher is gone.
  }
}

}  // namespace

StartedProcess fork_direct_node(agent::NodeProcesses node, int not_its) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe");
  StartedProcess started;
  started.err.reset(ends[0]);
  const UniqueFd notices(ends[1]);
  // The launcher opens its own pidfd before the fork, so that there is no moment at which its death could be
  // missed.
  const UniqueFd our_pidfd = open_pidfd(::getpid());
  if (!our_pidfd) throw_errno(kNoPidfd);
  node.launcher_pidfd = our_pidfd.get();
  node.notice_fd = notices.get();
  return fork_guardian(std::move(started), [&node, not_its](int link) {
    if (not_its >= 0) ::close(not_its);
    node.link_in = node.link_out = link;
    const int notice_fd = node.notice_fd;
    try {
      return agent::run_node_processes(std::move(node));
    } catch (const std::exception& error) {
      tell_error(notice_fd, error.what());
      return kExitLauncherFailure;
    }
  });
}

StartedProcess fork_local_node(const std::string& version, const agent::SignalState& signals) {
  return fork_guardian({}, [&](int link) { return agent::run_started_node({link, link, version, signals}); });
}

}  // namespace muster::launcher
