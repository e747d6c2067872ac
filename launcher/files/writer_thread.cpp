// SPDX-License-Identifier: Apache-2.0
#include "launcher/files/writer_thread.hpp"

#include "rendezvous/base/quiet_thread.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace muster::launcher {

// Shared with the thread, which may outlive the object while it is held up.
struct WriterThread::State {
  Write write;
  std::size_t most = 0;
  Full full = Full::drop_it;

  std::mutex mutex;
  /// Something was given, or nothing more will be.
  std::condition_variable given;
  /// The thread has ended.
  std::condition_variable ended_now;
  std::deque<std::string> texts;
  bool writing = false;
  bool closing = false;
  bool ended = false;
  Loss loss;
  std::atomic<bool> leave{false};

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      given.wait(lock, [this] { return closing || !texts.empty(); });
      if (texts.empty()) break;
      const std::string text = std::move(texts.front());
      texts.pop_front();
      writing = true;
      lock.unlock();
      std::string cause = write(text, leave);
      lock.lock();
      writing = false;
      if (!cause.empty()) loss = {loss.texts + 1, std::move(cause)};
      if (leave) break;
    }
    ended = true;
    ended_now.notify_all();
  }
};

WriterThread::WriterThread(Write write, std::size_t most, Full full) : state_(std::make_shared<State>()) {
  state_->write = std::move(write);
  state_->most = most;
  state_->full = full;
  quiet_thread([state = state_] { state->run(); }).detach();
}

WriterThread::~WriterThread() {
  finish(std::chrono::milliseconds(0));
}

void WriterThread::give(std::string text) {
  const std::lock_guard lock(state_->mutex);
  if (state_->texts.size() >= state_->most) {
    if (state_->full == Full::drop_it) {
      state_->loss = {state_->loss.texts + 1, "it takes nothing for a while"};
      return;
    }
    state_->texts.pop_front();
  }
  state_->texts.push_back(std::move(text));
  state_->given.notify_one();
}

WriterThread::Loss WriterThread::finish(std::chrono::milliseconds at_most) {
  std::unique_lock lock(state_->mutex);
  const bool first = !std::exchange(state_->closing, true);
  state_->given.notify_one();
  if (first && !state_->ended_now.wait_for(lock, at_most, [this] { return state_->ended; })) {
    state_->leave = true;
    const std::size_t left = state_->texts.size() + (state_->writing ? 1 : 0);
    if (left > 0) state_->loss = {state_->loss.texts + left, "it takes nothing for a while"};
    // The thread says nothing of these any more.
    return state_->loss;
  }
  return state_->loss;
}

}  // namespace muster::launcher
