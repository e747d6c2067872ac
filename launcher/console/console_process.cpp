// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/console_process.hpp"

#include "agent/process/signal_state.hpp"
#include "launcher/console/console_body.hpp"
#include "launcher/console/core/frame_reader.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace muster::launcher {
namespace {

/// P_PIDFD of waitid(), which older headers lack.
constexpr long kPidfd = 3;

void send_continue(int pidfd) {
  (void)::syscall(SYS_pidfd_send_signal, pidfd, SIGCONT, nullptr, 0);
}

/// Closes what was inherited from the launcher, and from whoever has started that.
void close_all_but(const ConsoleDescriptors& kept) {
  const std::set<int> numbers{kept.out.get(), kept.err.get(), kept.folder.get(), kept.launcher.get()};
  std::vector<int> inherited;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    const auto number = parse_number<int>(entry->path().filename().string());
    if (number && *number > STDERR_FILENO && !numbers.contains(*number)) inherited.push_back(*number);
  }
  for (const int number : inherited) ::close(number);
}

[[noreturn]] void be_the_console(ConsoleDescriptors descriptors, std::chrono::milliseconds outlives) {
  ::prctl(PR_SET_NAME, "muster:console");
  // While the launcher lives it lets a stopped one go on (continue_console); its end does so, too.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  // It ends with what it reads. A signal for the whole job is for the workers.
  agent::ignore_signals_of_others();
  for (const int number : agent::kStopSignals) ::signal(number, SIG_IGN);
  use_null_device(true);
  close_all_but(descriptors);
  if (::chdir("/") != 0) ::_exit(1);
  try {
    run_console(std::move(descriptors), outlives);
  } catch (const std::exception&) {
    ::_exit(1);  // without memory or a thread; the job goes on
  }
  ::_exit(0);
}

}  // namespace

ConsoleProcess::ConsoleProcess(const std::string& folder, std::chrono::milliseconds outlives) {
  ConsoleDescriptors descriptors;
  int out[2];
  int err[2];
  if (::pipe2(out, O_CLOEXEC) != 0) throw_errno("pipe");
  descriptors.out.reset(out[0]);
  UniqueFd our_out(out[1]);
  if (::pipe2(err, O_CLOEXEC) != 0) throw_errno("pipe");
  descriptors.err.reset(err[0]);
  UniqueFd our_err(err[1]);
  descriptors.folder.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!descriptors.folder) throw_errno(folder);
  descriptors.launcher = open_pidfd(::getpid());
  if (!descriptors.launcher) throw_errno(kNoPidfd);
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw_errno("cannot start the console process: fork");
  if (pid == 0) {
    our_out.reset();
    our_err.reset();
    be_the_console(std::move(descriptors), outlives);
  }
  pidfd_ = open_pidfd(pid);
  if (!pidfd_) throw_errno(kNoPidfd);
  if (::dup2(our_out.get(), STDOUT_FILENO) < 0 || ::dup2(our_err.get(), STDERR_FILENO) < 0)
    throw_errno("dup2");
}

void ConsoleProcess::finish(int exit_code) {
  // One that somebody has stopped would take nothing, and stay.
  send_continue(pidfd_.get());
  std::fflush(nullptr);
  (void)write_all(STDERR_FILENO, end_frame(exit_code));
  use_null_device(true);
  pollfd watched{pidfd_.get(), POLLIN, 0};
  ::poll(&watched, 1, static_cast<int>(kEndAtMost.count()));
}

bool continue_console(int pidfd) {
  siginfo_t info{};
  // Without WEXITED one that has ended is left to whoever reaps it.
  if (::syscall(SYS_waitid, kPidfd, pidfd, &info, WSTOPPED | WNOHANG, nullptr) != 0 || info.si_pid == 0)
    return false;
  send_continue(pidfd);
  return true;
}

void use_null_device(bool all) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return;
  ::dup2(null.get(), STDIN_FILENO);
  if (!all) return;
  ::dup2(null.get(), STDOUT_FILENO);
  ::dup2(null.get(), STDERR_FILENO);
}

}  // namespace muster::launcher
