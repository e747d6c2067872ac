// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/batches/epoch_plan.hpp"
#include "worker_sdk/nn/learner/learner.hpp"
#include "worker_sdk/nn/optim/schedule.hpp"

#include <cstdint>
#include <functional>

namespace muster::nn::gpu {
class Ops;
}

namespace muster::train {

/// The learning rate of a run as people write it down: in epochs, and perhaps for batches of 256.
struct Recipe {
  optim::ScheduleKind schedule = optim::ScheduleKind::constant;
  double rate = 0.04;
  /// Learning rate for batches of 256 images. Above 0 it replaces `rate` and is scaled to the images of all
  /// ranks (linear scaling rule).
  double rate_per_256 = 0;
  double warmup_epochs = 0;
  /// Share of the rate at which the warm-up starts; below 0: at the rate for 256 images where that rule
  /// scales up, else at a tenth.
  double warmup_start = -1;
  double step_epochs = 30;  ///< schedule "step"
  double gamma = 0.1;       ///< schedule "step"
  double minimum = 0;       ///< schedule "cosine"
  double peak_share = 0.3;  ///< schedule "one-cycle"
};

/// The schedule over `epochs` epochs of `steps_per_epoch` steps of `global_batch` images each.
optim::Schedule make_schedule(const Recipe& recipe, int epochs, std::int64_t steps_per_epoch,
                              std::int64_t global_batch);

/// The highest rate of the recipe, after scaling.
double full_rate(const Recipe& recipe, std::int64_t global_batch);

struct TrainerOptions {
  LearnerOptions learner;
  /// The device that computes; null: this machine's processors. Outlives the trainer.
  nn::gpu::Ops* device = nullptr;
  /// Images per micro-batch of one rank; the last of an epoch may have fewer.
  std::size_t batch_size = 64;
  /// Micro-batches of one rank that make one step.
  int accumulation = 1;
  /// Leaves out the images at the end of an epoch that do not fill a step. Off: the last step is smaller, its
  /// gradient exact.
  bool drop_last = false;
  /// The test images are scored, nothing is trained: there may be no training images.
  bool only_scores = false;
  Recipe recipe;
  int epochs = 3;
  /// Seed of the order of images; the learner and the loader have seeds of their own.
  std::uint64_t seed = 0;
  data::LoaderOptions loader;
  /// What the process had in memory before its images: for the table of memory. 0: unknown.
  std::size_t empty_process = 0;
  /// The ranks compare their parameters every so many steps; 0: only at the end.
  std::int64_t check_every = 0;
};

/// The place of a run: what a checkpoint holds beside the tensors.
struct Position {
  int epoch = 0;           ///< 0 is the first
  std::int64_t step = 0;   ///< steps of the run that are done
  std::size_t sample = 0;  ///< images of this epoch that are done, of all ranks
  double loss = 0;         ///< the loss, summed over them
  double correct = 0;      ///< correct answers among them

  bool operator==(const Position&) const = default;
};

/// A step that was just made. Figures are those of all ranks, `times` this rank's.
struct StepReport {
  Position position;            ///< the place of the run after the step
  std::size_t epoch_step = 0;   ///< steps of this epoch that are done
  std::size_t epoch_steps = 0;  ///< steps of this epoch in all
  StepResult step;
  float learning_rate = 0;

  /// The score over the epoch so far.
  Score epoch_score() const;
};

enum class Stop : std::uint8_t { none, time_is_up, told_to_stop, enough_steps };

/// Trains a network on the ranks of a group: each rank takes its share of every epoch's images, each image
/// once. The result is a function of data, options and world size (in a deterministic world not of that): the
/// same bits in every run. One thread.
class Trainer {
 public:
  /// `data` and `group` (null: a world of one) outlive the trainer. Every rank starts with rank 0's
  /// parameters. Throws Error (invalid_argument) where there are fewer training images than ranks.
  Trainer(const data::ImageData& data, ProcessGroup* group, const TrainerOptions& options);

  /// Asked before every step for what this rank wants all ranks to stop. Empty: never.
  std::function<Votes()> votes;
  /// Steps of the run after which it ends; 0: no bound.
  std::int64_t max_steps = 0;

  /// Works on the epoch of position() from where it stands to its end, or to a stop, which all ranks make
  /// after the same step. `on_step` (may be empty) is called after every step. Sets `score` to that of the
  /// whole epoch, of each batch before its step. Throws Error (invalid_argument) when the loss is no longer a
  /// number.
  Stop train_epoch(const std::function<void(const StepReport&)>& on_step, Score& score);

  /// Counts each test image once, over all ranks. Sets `score`, unless a rank is told to stop: the time alone
  /// does not end an evaluation. The weights are what they were before. Throws Error (invalid_argument) where
  /// the loss is not a number.
  Stop evaluate(Score& score);

  const Position& position() const { return position_; }

  void set_position(const Position& position) { position_ = position; }

  /// Moves to the next epoch, after the last step of one.
  void next_epoch();

  Learner& learner() { return learner_; }

  const StepShape& shape() const { return shape_; }

  std::size_t steps_per_epoch() const;

  std::size_t train_images() const { return data_.train.size(); }

  /// The profile of all steps of this process.
  const StepProfile& profile() const { return profile_; }

  MemoryTable memory() const;

 private:
  std::size_t images_per_epoch() const;
  std::size_t images_left() const;
  /// The step at which the schedule stands. It counts epochs and images, so the schedule reaches its end
  /// whatever sizes steps had.
  std::int64_t schedule_step() const;
  Stop score_test_images(Score& score);
  Error explained(const Error& error, const std::string& when) const;
  bool all_told_to_stop();
  Stop after_step(const StepResult& step) const;

  const data::ImageData& data_;
  ProcessGroup* const group_;
  const TrainerOptions options_;
  Learner learner_;
  StepShape shape_;
  optim::Schedule schedule_;
  Position position_;
  StepProfile profile_;
};

}  // namespace muster::train
