// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent_starter_local.hpp"

#include "agent/node_processes.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/posix.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <string>
#include <utility>

namespace muster::launcher {
namespace {

/// What the guardian holds of a LocalAgent.
struct GuardianEnds {
  UniqueFd launcher_pidfd;
  UniqueFd link;
  UniqueFd notices;
};

/// Forks a process that is to become a guardian and runs `body` in it; what it returns is the exit code. What
/// it throws becomes a line of LocalAgent::notices.
LocalAgent fork_guardian(const std::function<int(GuardianEnds&)>& body) {
  int link[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link) != 0) throw_errno("socketpair");
  int notices[2];
  LocalAgent started;
  started.link.reset(link[0]);
  GuardianEnds ends;
  ends.link.reset(link[1]);
  if (::pipe2(notices, O_CLOEXEC) != 0) throw_errno("pipe");
  started.notices.reset(notices[0]);
  ends.notices.reset(notices[1]);
  ends.launcher_pidfd = open_pidfd(::getpid());
  if (!ends.launcher_pidfd) throw_errno(kNoPidfd);

  const pid_t pid = ::fork();
  if (pid < 0) throw_errno("cannot start the guardian process: fork");
  if (pid == 0) {
    started.link.reset();
    started.notices.reset();
    int code = kExitLauncherFailure;
    try {
      code = body(ends);
    } catch (const std::exception& error) {
      const std::string line = std::string(error.what()) + "\n";
      (void)!::write(ends.notices.get(), line.data(), line.size());
    }
    ::_exit(code);
  }
  started.guardian = pid;
  started.guardian_pidfd = open_pidfd(pid);
  if (!started.guardian_pidfd) throw_errno(kNoPidfd);
  return started;
}

}  // namespace

LocalAgent start_local_agent(const LocalNode& node, const agent::SignalState& signals) {
  return fork_guardian([&](GuardianEnds& ends) {
    agent::NodeProcesses processes;
    processes.spec = node.spec;
    processes.version = MUSTER_VERSION;
    processes.link_in = processes.link_out = ends.link.release();
    processes.launcher_pidfd = ends.launcher_pidfd.get();
    processes.notice_fd = ends.notices.get();
    processes.job_secret = node.job_secret;
    processes.signals = signals;
    return agent::run_node_processes(std::move(processes));
  });
}

}  // namespace muster::launcher
