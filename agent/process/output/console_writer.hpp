// SPDX-License-Identifier: Apache-2.0
// Writes to one of our own streams from a thread of its own, because a terminal or a pipe may take nothing
// for hours.
#pragma once

#include "agent/process/output/console_sink.hpp"
#include "rendezvous/base/wake_up.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace muster::agent {

/// All calls come from one thread. `wake_up` is signalled when full() or ended() may have changed.
class ConsoleWriter final : public ConsoleSink {
 public:
  /// Bytes that may wait, besides the small piece whose write is under way. Callers stop when full() says so,
  /// and what they append nevertheless is taken.
  static constexpr std::size_t kQueueBytes = std::size_t{512} << 10;

  /// `fd` is borrowed; `name` ("stdout") is for notes.
  ConsoleWriter(int fd, std::string name, std::shared_ptr<WakeUp> wake_up);
  /// Waits 100 ms at most for a write under way; abandons the thread if that is stuck.
  ~ConsoleWriter() override;

  /// Starts the thread if need be. Bytes are dropped, and count as taken, once the stream is closed at its
  /// other end.
  void append(std::string_view bytes) override;
  bool full() const override;
  /// Says that no append() follows: the thread ends when everything is written.
  void stop() override;
  /// Whether everything is written or dropped, and the thread, if there was one, is at its end.
  bool ended() const override;
  /// Returns the bytes that are not taken yet. The number falls piece by piece, so that a slow reader differs
  /// from one that takes nothing.
  std::size_t unwritten() const override;
  std::vector<std::string> notes() const override;

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace muster::agent
