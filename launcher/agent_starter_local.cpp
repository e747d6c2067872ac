// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent_starter_local.hpp"

#include "agent/agent.hpp"
#include "agent/process/guardian.hpp"
#include "agent/store_process.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/server/embedded_daemon.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <string>

namespace muster::launcher {
namespace {

int guardian_main(const agent::AgentSpec& spec, const agent::SignalState& signals, GuardianEnds& ends) {
  agent::GuardianOptions options;
  options.launcher_pidfd = ends.launcher_pidfd.get();
  options.notice_fd = ends.notices.get();
  options.shutdown_timeout = spec.shutdown_timeout;
  options.signals = signals;
  const auto run_store = [&](int control_fd, int guardian_pidfd) {
    ::close(guardian_pidfd);
    ends.link.reset();
    ends.launcher_pidfd.reset();
    agent::drop_standard_input_and_output();
    return rendezvous::run_embedded_daemon(agent::begin_store_process(spec, control_fd));
  };
  const auto run_agent = [&](int control_fd, int guardian_pidfd) {
    ends.launcher_pidfd.reset();
    agent::AgentOptions agent_options;
    agent_options.link_fd = ends.link.release();
    agent_options.control_fd = control_fd;
    agent_options.guardian_pidfd = guardian_pidfd;
    agent_options.signals = signals;
    return agent::run_agent(agent_options);
  };
  const auto after_start = [&] {
    ends.link.reset();
    agent::drop_standard_input_and_output();
  };
  return agent::run_guardian(options, run_store, run_agent, after_start);
}

}  // namespace

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

LocalAgent start_local_agent(const agent::AgentSpec& spec, const agent::SignalState& signals) {
  return fork_guardian([&](GuardianEnds& ends) { return guardian_main(spec, signals, ends); });
}

}  // namespace muster::launcher
