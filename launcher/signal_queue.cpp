// SPDX-License-Identifier: Apache-2.0
#include "launcher/signal_queue.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/posix.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace muster::launcher {

SignalQueue::SignalQueue(const std::vector<int>& signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) throw_errno("sigprocmask");
  fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw_errno("signalfd");
}

int SignalQueue::wait(std::chrono::steady_clock::time_point until) {
  for (;;) {
    signalfd_siginfo info{};
    if (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      return static_cast<int>(info.ssi_signo);
    if (steady_now() >= until) return 0;
    pollfd watched{fd_.get(), POLLIN, 0};
    if (::poll(&watched, 1, poll_time(until)) < 0 && errno != EINTR) throw_errno("poll");
  }
}

}  // namespace muster::launcher
