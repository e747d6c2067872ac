// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/loop/recipe.hpp"

#include <algorithm>
#include <cmath>

namespace muster::train {
namespace {

std::int64_t steps_of(double epochs, std::int64_t steps_per_epoch) {
  return std::llround(epochs * static_cast<double>(steps_per_epoch));
}

}  // namespace

double full_rate(const Recipe& recipe, std::int64_t global_batch) {
  return recipe.rate_per_256 > 0 ? optim::scaled_rate(recipe.rate_per_256, global_batch) : recipe.rate;
}

optim::Schedule make_schedule(const Recipe& recipe, int epochs, std::int64_t steps_per_epoch,
                              std::int64_t global_batch) {
  optim::ScheduleOptions options;
  options.kind = recipe.schedule;
  options.rate = full_rate(recipe, global_batch);
  options.total_steps = std::max<std::int64_t>(1, epochs * steps_per_epoch);
  options.step_steps = std::max<std::int64_t>(1, steps_of(recipe.step_epochs, steps_per_epoch));
  options.gamma = recipe.gamma;
  options.minimum = recipe.minimum;
  options.peak_share = recipe.peak_share;
  options.warmup_steps = steps_of(recipe.warmup_epochs, steps_per_epoch);
  options.warmup_start = recipe.warmup_start;
  if (recipe.warmup_start < 0)
    options.warmup_start = recipe.rate_per_256 > 0 ? optim::scaled_warmup_start(global_batch) : 0.1;
  return optim::Schedule(options);
}

}  // namespace muster::train
