// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/local_node.hpp"

#include "agent/started_node.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <utility>

namespace muster::launcher {
namespace {

/// Forks a process and runs `body` in it with its end of the link; the exit code is what `body` returns. An
/// error that it throws is written to `errors_fd`, after `prefix`. `started` holds our ends of what else
/// leads there.
StartedProcess fork_guardian(StartedProcess started, int errors_fd, const std::string& prefix,
                             const std::function<int(int link)>& body) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("socketpair");
  const UniqueFd theirs(ends[1]);
  started.out.reset(ends[0]);
  started.is_client = false;
  started.pid = ::fork();
  if (started.pid < 0) throw_errno("cannot start the guardian process: fork");
  if (started.pid == 0) {
    started = {};
    int code = kExitLauncherFailure;
    try {
      code = body(theirs.get());
    } catch (const std::exception& error) {
      const std::string line = prefix + for_terminal(error.what()) + "\n";
      (void)!::write(errors_fd, line.data(), line.size());
    }
    ::_exit(code);
  }
  started.pidfd = open_pidfd(started.pid);
  if (!started.pidfd) throw_errno(kNoPidfd);
  return started;
}

}  // namespace

StartedProcess fork_direct_node(agent::NodeProcesses node) {
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
  return fork_guardian(std::move(started), notices.get(), "", [&node](int link) {
    node.link_in = node.link_out = link;
    return agent::run_node_processes(std::move(node));
  });
}

StartedProcess fork_local_node(const std::string& version, const agent::SignalState& signals) {
  return fork_guardian({}, STDERR_FILENO, "muster: error: guardian: ", [&](int link) {
    return agent::run_started_node({link, link, version, signals});
  });
}

}  // namespace muster::launcher
