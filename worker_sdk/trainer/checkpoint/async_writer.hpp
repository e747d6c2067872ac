// SPDX-License-Identifier: Apache-2.0
// Writing while training goes on: the state is copied, a thread writes the copy.
#pragma once

#include "worker_sdk/trainer/checkpoint/checkpoint.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace muster::checkpoint {

/// Writes checkpoints on a thread, at most one at a time. One thread calls it. The next call throws, once,
/// what a write threw.
class AsyncWriter {
 public:
  /// Nobody else uses the store while a write is under way. `deadline` bounds every wait for the disk.
  AsyncWriter(std::shared_ptr<CheckpointStore> store, std::chrono::milliseconds deadline);
  /// Waits for the write under way, up to the deadline; then leaves it to the thread. What is held is not
  /// written.
  ~AsyncWriter();
  AsyncWriter(const AsyncWriter&) = delete;
  AsyncWriter& operator=(const AsyncWriter&) = delete;

  /// Waits for the write before and returns as poll(); copies the state, which is written when it is worth
  /// it: with start_held() or wait(). One that was held before and never started is dropped.
  std::string hold(const TrainingState& state);
  /// Starts to write what is held, if anything is.
  void start_held();
  /// Calls hold() and then start_held().
  std::string start(const TrainingState& state);

  /// The path of a checkpoint that was finished since the last call, or empty. Does not wait: every step may
  /// call it.
  std::string poll();

  /// Returns as poll(), when nothing is held or being written any more. Throws Error (deadline) when a write
  /// takes too long.
  std::string wait();

 private:
  class Impl;
  std::string wait_for_write();
  const std::chrono::milliseconds deadline_;
  std::shared_ptr<Impl> impl_;
  bool held_ = false;
};

}  // namespace muster::checkpoint
