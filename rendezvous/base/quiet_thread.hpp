// SPDX-License-Identifier: Apache-2.0
// Starts threads on which no signal handler of the program runs: a program that takes its signals with
// sigwait() or signalfd() has blocked them in its own threads only.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace muster {

/// Blocks all signals of the calling thread, and so of the threads that it starts meanwhile. Leaves errno
/// alone.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }

  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

/// Starts a thread that gets no signals.
template <typename Work>
std::thread quiet_thread(Work&& work) {
  const SignalsBlocked blocked;
  return std::thread(std::forward<Work>(work));
}

}  // namespace muster
