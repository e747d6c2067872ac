// SPDX-License-Identifier: Apache-2.0
// What a person sees while training runs: a bar that is redrawn on a terminal, whole lines elsewhere.
#pragma once

#include "worker_sdk/muster_train/trainer/trainer.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace muster::train {

using Seconds = std::chrono::duration<double>;

/// Figures of the steps since the last line about them.
struct Window {
  std::int64_t steps = 0;
  std::int64_t samples = 0;   ///< images of all ranks
  double loss = 0;            ///< the loss, summed over the images
  double correct = 0;         ///< correct answers
  StepTimes times;            ///< times of this rank, summed over the steps
  std::uint64_t payload = 0;  ///< bytes that this rank had to send
  std::int64_t skipped = 0;   ///< steps that were left out (StepResult::skipped)
  Seconds began{0};

  void add(const StepReport& report);
  Score score() const;
  double images_per_second(Seconds now) const;
};

/// Decides what to print; prints nothing itself, and time is an argument, in seconds since the same moment.
/// One thread.
class Progress {
 public:
  struct Options {
    int epochs = 1;
    bool terminal = false;
    /// A line every so many steps of an epoch, on a terminal, too; 0: off a terminal one every ten seconds.
    std::int64_t every = 0;
  };

  explicit Progress(const Options& options) : options_(options) {}

  void begin_epoch(int epoch, Seconds now);
  /// Returns the text to write now, or an empty one.
  std::string step(const StepReport& report, Seconds now);
  /// The line that ends an epoch; replaces the bar. Without test images `test` has no samples and is left
  /// out.
  std::string end_epoch(const Score& train, Seconds training, const Score& test) const;

 private:
  std::string line(const StepReport& report, Seconds now);
  std::string bar(const StepReport& report, Seconds now) const;
  double remaining(const StepReport& report, Seconds now) const;

  const Options options_;
  int epoch_ = 0;
  std::size_t first_step_ = 0;  ///< steps of this epoch before the first one of this process
  bool fresh_ = true;
  Seconds began_{0};
  Seconds last_{0};
  std::int64_t samples_ = 0;  ///< images of this epoch in this process
  Window window_;
};

}  // namespace muster::train
