// SPDX-License-Identifier: Apache-2.0
#include "launcher/tree/branch_ends.hpp"

#include "launcher/start/local_node.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace muster::launcher {
namespace {

constexpr const char* kAgentSocket = "SSH_AUTH_SOCK";

[[noreturn]] void throw_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

UniqueFd take_away(int fd, int flags) {
  constexpr int kAside = 64;
  UniqueFd end(::fcntl(fd, F_DUPFD_CLOEXEC, kAside));
  const UniqueFd null(::open("/dev/null", flags | O_CLOEXEC));
  if (!end || !null || ::dup2(null.get(), fd) < 0) throw_errno("cannot take the ends of the login");
  return end;
}

StartedProcess fork_own_node(const std::string& version, const agent::SignalState& signals) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) throw_errno("pipe");
  UniqueFd read_end(pipe_ends[0]);
  const UniqueFd write_end(pipe_ends[1]);
  const UniqueFd stderr_here(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!stderr_here || ::dup2(write_end.get(), STDERR_FILENO) < 0) throw_errno("dup");
  const char* socket = std::getenv(kAgentSocket);
  const std::string kept = socket != nullptr ? socket : "";
  ::unsetenv(kAgentSocket);
  StartedProcess started = fork_local_node(version, signals);
  if (socket != nullptr) ::setenv(kAgentSocket, kept.c_str(), 1);
  if (::dup2(stderr_here.get(), STDERR_FILENO) < 0) throw_errno("dup");
  started.err = std::move(read_end);
  return started;
}

}  // namespace muster::launcher
