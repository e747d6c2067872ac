// SPDX-License-Identifier: Apache-2.0
// A thread that writes one file, so that a disk or a reader that takes nothing holds up nobody else.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace muster::launcher {

/// Give and finish from one thread. The thread starts with the object, gets no signals, and ends with
/// finish(), or, where it is held up then, with the process.
class WriterThread {
 public:
  /// Writes a text; called on the thread. Returns why it could not, in words, or "". It gives up soon after
  /// `leave` is set.
  using Write = std::function<std::string(const std::string& text, const std::atomic<bool>& leave)>;

  /// What is done with a text for which there is no room.
  enum class Full { drop_it, drop_oldest };

  /// What was lost since the beginning: the number of texts, and why the last of them was.
  struct Loss {
    std::uint64_t texts = 0;
    std::string cause;
  };

  /// `most`: texts that may wait.
  WriterThread(Write write, std::size_t most, Full full);
  ~WriterThread();
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  /// Queues a text, which counts as lost where there is no room. Never waits.
  void give(std::string text);

  /// Waits until all is written, for `at_most`; what is not written by then is lost. Nothing may be given
  /// after it. A second call returns the same.
  Loss finish(std::chrono::milliseconds at_most);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
