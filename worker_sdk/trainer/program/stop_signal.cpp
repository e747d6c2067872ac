// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/program/process.hpp"

#include <signal.h>

#include <cstdlib>

namespace muster::examples {
namespace {

std::atomic<bool> told_to_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only use atomics without locks");

extern "C" void on_stop_signal(int) {
  told_to_stop = true;
}

}  // namespace

const std::atomic<bool>& catch_stop_signal() {
  struct sigaction action {};

  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  return told_to_stop;
}

void end_by_signal() {
  signal(SIGTERM, SIG_DFL);
  raise(SIGTERM);
  std::abort();  // SIGTERM was blocked
}

}  // namespace muster::examples
