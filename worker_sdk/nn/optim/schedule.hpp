// SPDX-License-Identifier: Apache-2.0
// Learning rates over the steps of a run. Pure: the rate is a function of the step, so a resumed run has the
// rates of one that was never stopped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::optim {

enum class ScheduleKind : std::uint8_t {
  constant,
  step,       ///< times `gamma` after every `step_steps` (torch.optim.lr_scheduler.StepLR)
  cosine,     ///< half a cosine down to `minimum` (SGDR, Loshchilov & Hutter, ICLR 2017; CosineAnnealingLR)
  one_cycle,  ///< up from rate / 25 over `peak_share` of the steps, then down to rate / 250,000, both as half
              ///< cosines (Smith & Topin 2018; OneCycleLR without its cycle of the momentum)
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::constant;
  double rate = 0.04;  ///< the base rate; one_cycle: the highest
  std::int64_t total_steps = 1;
  std::int64_t step_steps = 1;
  double gamma = 0.1;
  double minimum = 0;
  double peak_share = 0.3;
  /// A straight line from warmup_start * rate to the rate over so many steps (LinearLR); cosine covers the
  /// steps after it, step counts from the first step of all. Not with one_cycle, which has its own.
  std::int64_t warmup_steps = 0;
  double warmup_start = 0.1;
};

class Schedule {
 public:
  /// Throws Error (invalid_argument) that names what cannot be.
  explicit Schedule(const ScheduleOptions& options);

  /// The rate of step `step` (0 is the first). Beyond the last step: the last rate.
  float at(std::int64_t step) const;

 private:
  ScheduleOptions options_;
};

/// The linear scaling rule (Goyal et al., "Accurate, Large Minibatch SGD", 2017): the rate for batches of 256
/// images, scaled to `global_batch`.
double scaled_rate(double rate_per_256, std::int64_t global_batch);

/// The start of that paper's warm-up, as a share of the scaled rate: at the rate for 256 images. 0.1 for
/// batches that are not above 256.
double scaled_warmup_start(std::int64_t global_batch);

/// Throws Error (invalid_argument) that names the choices.
ScheduleKind schedule_kind(const std::string& name);
/// The names of the schedules: "constant", "step", "cosine", "one-cycle".
std::vector<std::string> schedule_names();

}  // namespace muster::optim
