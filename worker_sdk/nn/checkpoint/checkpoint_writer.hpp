// SPDX-License-Identifier: Apache-2.0
// Checkpoints that one process writes, or several together, while training goes on.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/nn/checkpoint/async_writer.hpp"
#include "worker_sdk/nn/checkpoint/checkpoint.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::checkpoint {

/// How processes that write checkpoints together tell each other where they are: collective calls, which are
/// not made where one writes alone.
struct Together {
  Share share;
  /// The largest of the numbers that the processes have: each step calls it while a checkpoint is written.
  std::function<int(int mine)> largest = {};
  /// The texts of all processes, on each of them: two or three times for a checkpoint.
  std::function<std::vector<std::string>(const std::string& mine)> exchange = {};
};

/// Writes on a thread, at most one checkpoint at a time. One thread calls it. Of several processes each makes
/// the same calls, which are collective. The next call throws, once and on all processes, what a write threw:
/// the process that failed its own error, the others Error (aborted) that names it. The checkpoint before is
/// then still there, and the new one is not, unless the error was that of the removal of older ones.
class CheckpointWriter {
 public:
  /// `store`: of the first process; null on the others. Nobody else uses it while a write is under way.
  /// `deadline` bounds every wait for a write.
  CheckpointWriter(std::string folder, std::shared_ptr<CheckpointStore> store, Together together,
                   std::chrono::milliseconds deadline);

  /// Waits for the write before and returns as poll(); copies the state, which is written when it is worth
  /// it: with start_held() or wait(). One that was held before and never started is dropped.
  std::string hold(const TrainingState& state);
  /// Starts to write what is held, if anything is.
  void start_held();
  /// Calls hold() and then start_held().
  std::string start(const TrainingState& state);

  /// The path of a checkpoint that was finished since the last call, or empty. Does not wait for disks: every
  /// step may call it.
  std::string poll();

  /// The bytes of the copy, which is kept from one checkpoint to the next.
  std::size_t copy_bytes() const { return writer_.copy_bytes(); }

  /// Returns as poll(), when nothing is held or being written any more. Throws Error (deadline) when a write
  /// takes too long.
  std::string wait();

 private:
  /// Where the checkpoint is that is on its way. A process alone does the work of `files` in `manifest`.
  enum class Phase : std::uint8_t { idle, held, files, manifest };

  /// How far a process is in a phase; the largest over the processes decides what they do.
  enum class State : std::uint8_t { done, busy, failed };

  bool is_alone() const { return together_.share.count == 1; }

  void begin();
  std::string advance(bool wait);
  std::string advance_alone(bool wait);
  State own_state(bool wait);
  void begin_manifest(const std::vector<std::string>& results);
  [[noreturn]] void fail(const std::vector<std::string>& errors);

  const std::string folder_;
  const std::shared_ptr<CheckpointStore> store_;
  const Together together_;
  AsyncWriter writer_;
  Phase phase_ = Phase::idle;
  std::string name_;                   ///< of the checkpoint that is on its way
  std::int64_t step_ = 0;              ///< of that checkpoint
  std::optional<std::string> result_;  ///< of this process at the end of a phase
  std::optional<Error> failure_;       ///< instead of a result
};

}  // namespace muster::checkpoint
