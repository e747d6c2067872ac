// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/started_process.hpp"

#include "agent/process/child_process.hpp"
#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

namespace muster::launcher {
namespace {

/// Size of the pipes, so that many workers' output can be on its way while the launcher does something else.
constexpr int kPipeBytes = 256 << 10;

/// The descriptor on which the child says why it could not become the client; the kernel closes it when it
/// could.
constexpr int kErrorStream = 3;

/// Everything that the child needs, made before it exists: it shares our memory until it has become another
/// program (but not where a sanitizer makes a fork of vfork, so nothing is told through the memory).
struct Child {
  const char* program = nullptr;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  int streams[4] = {-1, -1, -1, -1};
  const agent::SignalState* signals = nullptr;
  pid_t parent = -1;
};

[[noreturn]] void become(Child& child) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The launcher may have died before the death signal was set; then nobody would ever end this client.
  if (::getppid() != child.parent) ::_exit(127);
  for (int target = 0; target <= kErrorStream; ++target) ::dup2(child.streams[target], target);
  if (::syscall(SYS_close_range, kErrorStream + 1U, ~0U, 0U) != 0)
    for (int fd = kErrorStream + 1; fd < 1024; ++fd) ::close(fd);
  ::fcntl(kErrorStream, F_SETFD, FD_CLOEXEC);
  child.signals->restore_for_ours();
  ::execve(child.program, child.arguments.data(), child.environment.data());
  const int error = errno;
  (void)!::write(kErrorStream, &error, sizeof error);
  ::_exit(127);
}

/// Returns the child's pid, or -1 with errno set. Not inlined: nothing of the caller may live in registers
/// that the child overwrites.
[[gnu::noinline]] pid_t run(Child& child) {
  // A handler of ours must not run in the child, which shares our memory.
  const SignalsBlocked blocked;
  const pid_t pid = ::vfork();
  if (pid == 0) become(child);
  return pid;
}

std::vector<char*> client_environment(const std::vector<std::string>& defaults) {
  // A client that another one starts (for a jump host) must not ask for a password in a window, either.
  static char no_questions[] = "SSH_ASKPASS_REQUIRE=never";
  std::vector<char*> environment;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry)
    if (!std::string_view(*entry).starts_with("SSH_ASKPASS_REQUIRE=")) environment.push_back(*entry);
  environment.push_back(no_questions);
  for (const std::string& entry : defaults)
    if (std::getenv(entry.substr(0, entry.find('=')).c_str()) == nullptr)
      environment.push_back(const_cast<char*>(entry.c_str()));
  environment.push_back(nullptr);
  return environment;
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw LaunchError(kExitLauncherFailure, "cannot make a pipe to a host: " +
                                                std::generic_category().message(errno) + "; raise ulimit -n");
  Pipe made;
  made.read.reset(ends[0]);
  made.write.reset(ends[1]);
  return made;
}

/// Moves a pipe end above the streams: it must not get the number of one of the streams that it is to become.
void move_above_streams(UniqueFd& fd) {
  if (fd.get() > kErrorStream) return;
  const int moved = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, kErrorStream + 1);
  if (moved >= 0) fd.reset(moved);
}

/// Reads the error number that the child wrote before it ended; 0 when it became the client.
int read_error(Pipe& said) {
  said.write.reset();
  int error = 0;
  ssize_t count = 0;
  do count = ::read(said.read.get(), &error, sizeof error);
  while (count < 0 && errno == EINTR);
  return count == sizeof error ? error : 0;
}

[[noreturn]] void throw_not_started(const std::string& program, int error) {
  if (error == ENOENT)
    throw LaunchError(kExitLauncherFailure, "'" + program + "' was not found; install it, or check PATH");
  throw LaunchError(kExitLauncherFailure,
                    "'" + program + "' cannot be started: " + std::generic_category().message(error));
}

}  // namespace

StartedProcess spawn_client(const std::vector<std::string>& arguments, const agent::SignalState& signals,
                            const std::vector<std::string>& defaults) {
  const char* path = std::getenv("PATH");
  const std::string program =
      agent::find_program(arguments.front(), path != nullptr ? path : "/usr/bin:/bin");
  if (program.empty()) throw_not_started(arguments.front(), ENOENT);
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Pipe said = make_pipe();
  for (UniqueFd* fd : {&in.read, &out.write, &err.write, &said.write}) move_above_streams(*fd);
  // The kernel refuses this when the user has many pipes already; the usual size does, too.
  (void)::fcntl(out.read.get(), F_SETPIPE_SZ, kPipeBytes);

  Child child;
  child.program = program.c_str();
  for (const std::string& argument : arguments)
    child.arguments.push_back(const_cast<char*>(argument.c_str()));
  child.arguments.push_back(nullptr);
  child.environment = client_environment(defaults);
  child.streams[0] = in.read.get();
  child.streams[1] = out.write.get();
  child.streams[2] = err.write.get();
  child.streams[kErrorStream] = said.write.get();
  child.signals = &signals;
  child.parent = ::getpid();

  StartedProcess started;
  started.pid = run(child);
  if (started.pid < 0) throw_not_started(program, errno);
  started.pidfd = open_pidfd(started.pid);
  if (const int error = read_error(said); error != 0) throw_not_started(program, error);
  if (!started.pidfd) {
    ::kill(started.pid, SIGKILL);
    throw LaunchError(kExitLauncherFailure, "pidfd_open: " + std::generic_category().message(errno) +
                                                " (Linux 5.4 or newer is needed)");
  }
  started.in = std::move(in.write);
  started.out = std::move(out.read);
  started.err = std::move(err.read);
  return started;
}

}  // namespace muster::launcher
