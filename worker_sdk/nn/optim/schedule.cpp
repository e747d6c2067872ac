// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/optim/schedule.hpp"

#include "muster/error.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster::optim {
namespace {

constexpr double kOneCycleStart = 25;  // OneCycleLR's div_factor
constexpr double kOneCycleEnd = 1e4;   // and its final_div_factor, of the first rate

void require(bool holds, const std::string& text) {
  if (!holds) throw Error(ErrorCode::invalid_argument, "the learning rate schedule: " + text);
}

/// From `start` to `end` as `share` goes from 0 to 1.
double half_cosine(double start, double end, double share) {
  return end + (start - end) / 2 * (1 + std::cos(std::numbers::pi * share));
}

double one_cycle(const ScheduleOptions& o, std::int64_t step) {
  const double first = o.rate / kOneCycleStart;
  const double last_step = static_cast<double>(o.total_steps) - 1;
  const double peak = o.peak_share * static_cast<double>(o.total_steps) - 1;
  const auto now = static_cast<double>(step);
  if (now <= peak && peak > 0) return half_cosine(first, o.rate, now / peak);
  if (last_step <= peak) return o.rate;
  return half_cosine(o.rate, first / kOneCycleEnd,
                     (now - std::max(0.0, peak)) / (last_step - std::max(0.0, peak)));
}

double cosine(const ScheduleOptions& o, std::int64_t step) {
  const auto length = static_cast<double>(std::max<std::int64_t>(1, o.total_steps - o.warmup_steps));
  return half_cosine(o.rate, o.minimum, static_cast<double>(step - o.warmup_steps) / length);
}

double warmup(const ScheduleOptions& o, std::int64_t step) {
  const double share = static_cast<double>(step) / static_cast<double>(o.warmup_steps);
  return o.rate * (o.warmup_start + (1 - o.warmup_start) * share);
}

}  // namespace

Schedule::Schedule(const ScheduleOptions& options) : options_(options) {
  require(options.rate >= 0 && std::isfinite(options.rate), "a rate must be 0 or more");
  require(options.total_steps >= 1, "a run without steps has no rates");
  require(options.step_steps >= 1, "steps of less than one step");
  require(options.gamma > 0 && options.gamma <= 1, "gamma must be above 0 and at most 1");
  require(options.minimum >= 0 && options.minimum <= options.rate,
          "the minimum must lie between 0 and the rate");
  require(options.peak_share > 0 && options.peak_share < 1,
          "the peak must lie between the first and the last step");
  require(options.warmup_steps >= 0, "warm-up must take 0 steps or more");
  require(options.warmup_start >= 0 && options.warmup_start <= 1,
          "warm-up must start between 0 and the rate");
  require(options.warmup_steps == 0 || options.kind != ScheduleKind::one_cycle,
          "one-cycle has a warm-up of its own; leave warmup_steps at 0");
  require(options.warmup_steps < options.total_steps || options.warmup_steps == 0,
          "warm-up takes the whole run; shorten it or train for longer");
}

float Schedule::at(std::int64_t step) const {
  const ScheduleOptions& o = options_;
  const std::int64_t now = std::clamp<std::int64_t>(step, 0, o.total_steps - 1);
  if (now < o.warmup_steps) return static_cast<float>(warmup(o, now));
  const std::int64_t falls = now / o.step_steps;
  switch (o.kind) {
    case ScheduleKind::constant:
      break;
    case ScheduleKind::step:
      return static_cast<float>(o.rate * std::pow(o.gamma, static_cast<double>(falls)));
    case ScheduleKind::cosine:
      return static_cast<float>(cosine(o, now));
    case ScheduleKind::one_cycle:
      return static_cast<float>(one_cycle(o, now));
  }
  return static_cast<float>(o.rate);
}

double scaled_rate(double rate_per_256, std::int64_t global_batch) {
  return rate_per_256 * static_cast<double>(global_batch) / 256;
}

double scaled_warmup_start(std::int64_t global_batch) {
  return global_batch > 256 ? 256 / static_cast<double>(global_batch) : 0.1;
}

std::vector<std::string> schedule_names() {
  return {"constant", "step", "cosine", "one-cycle"};
}

ScheduleKind schedule_kind(const std::string& name) {
  const std::vector<std::string> names = schedule_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw Error(ErrorCode::invalid_argument,
                "no schedule is called " + name + "; give constant, step, cosine or one-cycle");
  return static_cast<ScheduleKind>(found - names.begin());
}

}  // namespace muster::optim
