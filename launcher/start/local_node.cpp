// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/local_node.hpp"

#include "agent/remote_node.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <utility>

namespace muster::launcher {
namespace {

[[noreturn]] void be_the_node(UniqueFd link, const std::string& version, const agent::SignalState& signals) {
  // What workers print goes to the launcher over the link, as from every other node.
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(null.get(), STDOUT_FILENO);
  agent::RemoteNodeOptions options;
  options.in_fd = link.get();
  options.out_fd = link.release();
  options.version = version;
  options.signals = signals;
  int code = kExitLauncherFailure;
  try {
    code = agent::run_remote_node(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "muster: error: guardian: %s\n", for_terminal(error.what()).c_str());
  }
  ::_exit(code);
}

}  // namespace

StartedProcess fork_local_node(const std::string& version, const agent::SignalState& signals) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("socketpair");
  StartedProcess started;
  UniqueFd theirs(ends[1]);
  started.out.reset(ends[0]);
  started.is_client = false;
  started.pid = ::fork();
  if (started.pid < 0) throw_errno("cannot start the guardian process: fork");
  if (started.pid == 0) {
    started.out.reset();
    be_the_node(std::move(theirs), version, signals);
  }
  started.pidfd = open_pidfd(started.pid);
  if (!started.pidfd) throw_errno(kNoPidfd);
  return started;
}

}  // namespace muster::launcher
