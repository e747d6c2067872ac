// SPDX-License-Identifier: Apache-2.0
// Starts the threads that may block in a write.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace muster::agent {

/// A thread that no signal is delivered to: signals are the agent's thread's business, and a write to a
/// closed pipe here must be an error, whatever the process does with SIGPIPE. (It is Linux's own rule that a
/// SIGPIPE is directed at the thread that wrote.)
template <typename Function>
std::thread start_helper_thread(const char* name, Function function) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(function));
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace muster::agent
