// SPDX-License-Identifier: Apache-2.0
// Starts and ends the threads that may block in a write.
#pragma once

#include "rendezvous/base/quiet_thread.hpp"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace muster::agent {

/// Starts a thread that no signal is delivered to: signals are the agent's thread's business, and a write to
/// a closed pipe here must be an error, whatever the process does with SIGPIPE. (It is Linux's own rule that
/// a SIGPIPE is directed at the thread that wrote.)
template <typename Function>
std::thread start_helper_thread(const char* name, Function function) {
  std::thread thread = quiet_thread(std::move(function));
  ::pthread_setname_np(thread.native_handle(), name);
  return thread;
}

/// What a helper thread shares with its owner; `mutex` guards all of it.
struct HelperState {
  std::mutex mutex;
  std::condition_variable changed;
  /// Whether nothing more comes, so that the thread ends when everything is written.
  bool stopping = false;
  /// Whether the owner goes, so that the thread ends after the write that is under way.
  bool abandoned = false;
  /// Whether the thread is at its end, as it says itself.
  bool ended = false;
};

/// Waits 100 ms at most for a write under way; leaves the thread to itself if that is stuck.
inline void abandon_helper_thread(std::thread& thread, HelperState& state) {
  static constexpr auto kPatience = std::chrono::milliseconds(100);
  if (!thread.joinable()) return;
  std::unique_lock lock(state.mutex);
  state.stopping = true;
  state.abandoned = true;
  state.changed.notify_all();
  const bool ended = state.changed.wait_for(lock, kPatience, [&state] { return state.ended; });
  lock.unlock();
  if (ended)
    thread.join();
  else
    thread.detach();
}

/// Whether the thread is at its end, or was never started.
inline bool helper_ended(const std::thread& thread, HelperState& state) {
  if (!thread.joinable()) return true;
  const std::scoped_lock lock(state.mutex);
  return state.ended;
}

}  // namespace muster::agent
