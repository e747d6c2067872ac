// SPDX-License-Identifier: Apache-2.0
// A whole run: epochs, evaluations, stops, and everything that is told about them.
#pragma once

#include "worker_sdk/muster_train/checkpoint/checkpointing.hpp"
#include "worker_sdk/muster_train/trainer/trainer.hpp"
#include "worker_sdk/muster_train/watch/run_log.hpp"
#include "worker_sdk/world/world.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace muster::train {

struct RunOptions {
  TrainerOptions trainer;
  LogOptions log;
  CheckpointOptions checkpoints;
  /// Whether the run only scores the test images.
  bool eval_only = false;
  /// Steps of the run (counted from its very first) after which it ends; 0: no bound.
  std::int64_t max_steps = 0;
  /// Seconds after which training ends with the step under way; 0: no bound.
  double time_limit = 0;
  /// File for a Chrome trace of all ranks; empty: none.
  std::string profile;
};

enum class RunEnd : std::uint8_t {
  done,
  /// A signal ended the run after the step under way. A checkpoint of that step was written where there is a
  /// folder for it.
  told_to_stop,
};

/// One run on the ranks of a world. One thread.
class Run {
 public:
  /// `data`, `world` and `stop` (set when the process is told to end; may be null) outlive it. `write` gets
  /// text for stdout; it is called on rank 0 only. A collective call.
  Run(const RunOptions& options, const data::ImageData& data, World& world, const std::atomic<bool>* stop,
      std::function<void(const std::string&)> write);

  /// Throws Error as Trainer does.
  RunEnd run();

  /// Tells the other ranks why this one has failed, where the world's group does not reach them.
  void abort(const std::string& reason) { trainer_.learner().abort(reason); }

 private:
  using Clock = std::chrono::steady_clock;

  Seconds elapsed() const { return Clock::now() - start_; }

  bool speaks() const { return log_.has_value(); }

  std::string introduction();
  JsonLine facts();
  RunEnd train();
  RunEnd stop();
  void on_step(const StepReport& report);
  void tell_of_epoch(const Score& train, Seconds training, const Score& test, Stop stop);
  void finish(const Score& test);
  void write_profile();

  const RunOptions options_;
  World& world_;
  ProcessGroup* const group_;
  const std::atomic<bool>* const stop_;
  const std::function<void(const std::string&)> write_;
  const Clock::time_point start_ = Clock::now();
  Trainer trainer_;
  Checkpointing checkpoints_;
  std::optional<RunLog> log_;
  std::optional<TraceRecorder> trace_;
  Clock::time_point origin_;
};

}  // namespace muster::train
