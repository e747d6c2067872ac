// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/optim/schedule.hpp"

#include <cstdint>

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

}  // namespace muster::train
