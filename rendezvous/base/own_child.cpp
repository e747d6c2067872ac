// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/own_child.hpp"

#include "rendezvous/base/posix.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <map>
#include <mutex>

namespace muster {
namespace {

struct Child {
  pid_t pid = 0;
  /// What waitpid(2) has told: from then on the number may be somebody else's.
  std::optional<int> status{};

  /// Reaps it if it has ended.
  void reap() {
    constexpr int kUnknown = 1 << 8;  // exit code 1, of a child that the kernel has reaped
    int told = 0;
    const pid_t reaped = status ? 0 : ::waitpid(pid, &told, WNOHANG);
    if (reaped == pid) status = told;
    if (reaped < 0 && errno == ECHILD) status = kUnknown;
  }
};

/// The children that are waited for, by who waits.
struct Family {
  std::mutex mutex;
  std::map<const OwnChild*, Child> children{};

  /// Call it with the mutex locked.
  Child* living(pid_t pid) {
    for (auto& [owner, child] : children)
      if (child.pid == pid && !child.status) return &child;
    return nullptr;
  }
};

Family& family() {
  static Family one;
  return one;
}

void close_from(unsigned first) {
  if (::syscall(SYS_close_range, first, ~0U, 0) == 0) return;
  constexpr int kHighest = 65536;  // before Linux 5.9
  for (int fd = static_cast<int>(first); fd < kHighest; ++fd) ::close(fd);
}

[[noreturn]] void run_child(pid_t parent, int kept, const std::function<int()>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before the death signal was set.
  if (::getppid() != parent) ::_exit(1);
  ::prctl(PR_SET_DUMPABLE, 0);
  ::dup2(kept, OwnChild::kKept);
  close_from(OwnChild::kKept + 1);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < OwnChild::kKept; ++fd) ::dup2(null, fd);
  int code = 1;
  try {
    code = work();
  } catch (const std::exception&) {
    // What it could not do is missing in what it has told.
  }
  ::_exit(code);
}

}  // namespace

OwnChild::OwnChild(int kept, const std::function<int()>& work) {
  const pid_t parent = ::getpid();
  // Held until its number is known, so that nobody takes it for another child meanwhile.
  const std::lock_guard lock(family().mutex);
  pid_ = ::fork();
  if (pid_ < 0) throw_errno("fork");
  if (pid_ == 0) run_child(parent, kept, work);
  pidfd_ = open_pidfd(pid_);
  if (!pidfd_) {
    const int error = errno;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    throw_errno(kNoPidfd, error);
  }
  family().children[this].pid = pid_;
}

OwnChild::~OwnChild() {
  kill();
  wait();
}

void OwnChild::kill() const {
  // Its number is its own until wait() has told the end.
  if (!status_) ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

int OwnChild::wait() {
  while (!status_) {
    pollfd ended{pidfd_.get(), POLLIN, 0};
    (void)::poll(&ended, 1, -1);
    const std::lock_guard lock(family().mutex);
    Child& child = family().children.at(this);
    child.reap();
    status_ = child.status;
    if (status_) family().children.erase(this);
  }
  return *status_;
}

bool is_own_child(pid_t pid) {
  const std::lock_guard lock(family().mutex);
  return family().living(pid) != nullptr;
}

bool has_own_child() {
  const std::lock_guard lock(family().mutex);
  return !family().children.empty();
}

bool reap_own_child(pid_t pid) {
  const std::lock_guard lock(family().mutex);
  Child* const child = family().living(pid);
  if (child != nullptr) child->reap();
  return child != nullptr;
}

}  // namespace muster
