// SPDX-License-Identifier: Apache-2.0
// Writing while training goes on: the state is copied, a thread works on the copy.
#pragma once

#include "worker_sdk/nn/checkpoint/checkpoint.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace muster::checkpoint {

/// Keeps a copy of a state, and a thread that works on it. One thread calls it. The next call throws, once,
/// what the work threw.
class AsyncWriter {
 public:
  /// Makes something of the state, and gives its result to who asks for it.
  using Work = std::function<std::string(const TrainingState& state)>;

  /// `deadline` bounds every wait for the disk; `folder` is for messages.
  AsyncWriter(std::string folder, std::chrono::milliseconds deadline);
  /// Waits for the work under way, up to the deadline; then leaves it to the thread.
  ~AsyncWriter();
  AsyncWriter(const AsyncWriter&) = delete;
  AsyncWriter& operator=(const AsyncWriter&) = delete;

  /// Copies the elements of a state. No work is under way.
  void copy(const TrainingState& state);
  /// Starts to work on the copy. No work is under way.
  void start(Work work);
  /// The result of the work, once; nothing while it is under way. Does not wait.
  std::optional<std::string> poll();
  bool is_busy() const;
  /// The bytes of the copy.
  std::size_t copy_bytes() const;
  /// Waits for the result. Throws Error (deadline) where the work takes too long; it is then still under way.
  std::string wait();

 private:
  class Impl;
  const std::string folder_;
  const std::chrono::milliseconds deadline_;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::checkpoint
