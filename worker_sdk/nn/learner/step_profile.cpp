// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/learner/step_profile.hpp"

#include "worker_sdk/nn/learner/text.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace muster::train {
namespace {

/// Steps whose exposure is kept: 4 MB, and more than enough for a mean.
constexpr std::size_t kKeptSteps = std::size_t{1} << 20;

constexpr std::array kParts = {&StepTimes::data_wait, &StepTimes::forward,       &StepTimes::backward,
                               &StepTimes::late,      &StepTimes::exposed,       &StepTimes::optimizer,
                               &StepTimes::total,     &StepTimes::communication, &StepTimes::between};

StepTimes divided(StepTimes times, double by) {
  for (const auto part : kParts) times.*part /= by;
  return times;
}

}  // namespace

std::chrono::steady_clock::duration overlap(std::chrono::steady_clock::time_point begin,
                                            std::chrono::steady_clock::time_point end,
                                            std::chrono::steady_clock::time_point from,
                                            std::chrono::steady_clock::time_point to) {
  return std::max(std::chrono::steady_clock::duration::zero(), std::min(end, to) - std::max(begin, from));
}

StepTimes& StepTimes::operator+=(const StepTimes& other) {
  for (const auto part : kParts) this->*part += other.*part;
  return *this;
}

std::size_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;  // Linux counts in KiB
}

void StepProfile::add(const StepTimes& step) {
  sum_ += step;
  ++steps_;
  if (exposed_.size() < kKeptSteps) exposed_.push_back(static_cast<float>(step.exposed));
}

StepTimes StepProfile::mean(ProcessGroup* group) const {
  if (steps_ == 0) return {};
  StepTimes times = divided(sum_, static_cast<double>(steps_));
  if (group == nullptr || group->size() == 1) return times;
  std::vector<float> smallest = exposed_;
  group->all_reduce(smallest.data(), smallest.size(), DataType::f32, ReduceOp::min);
  double more = 0;
  for (std::size_t i = 0; i < smallest.size(); ++i)
    more += static_cast<double>(exposed_[i]) - static_cast<double>(smallest[i]);
  // Each exposure is kept as a float: what rounding added or took must not make the rest negative.
  more = std::min(more / static_cast<double>(exposed_.size()), times.exposed);
  times.late += more;
  times.exposed -= more;
  std::array<double, kParts.size()> sums;
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = times.*kParts[i];
  group->all_reduce(sums.data(), sums.size(), DataType::f64, ReduceOp::sum);
  for (std::size_t i = 0; i < sums.size(); ++i) times.*kParts[i] = sums[i];
  return divided(times, group->size());
}

std::string time_table(const StepTimes& mean, std::int64_t steps, int ranks) {
  if (steps == 0) return "";
  std::string text = format("where a step went, mean of %lld steps", static_cast<long long>(steps));
  text += ranks == 1 ? ":\n" : format(" on %d ranks:\n", ranks);
  const auto row = [&](const char* name, double seconds) {
    text += format("  %-24s %10.3f ms  %5.1f %%\n", name, 1000 * seconds,
                   mean.total > 0 ? 100 * seconds / mean.total : 0.0);
  };
  row("waiting for data", mean.data_wait);
  row("forward", mean.forward);
  row("backward", mean.backward);
  if (ranks > 1) row("waiting for late ranks", mean.late);
  const bool communicates = ranks > 1 || mean.communication > 0;
  if (communicates) row("exposed communication", mean.exposed);
  row("optimizer", mean.optimizer);
  row("rest",
      mean.total - mean.data_wait - mean.forward - mean.backward - mean.late - mean.exposed - mean.optimizer);
  row("step", mean.total);
  if (communicates)
    text += format("  %-24s %10.3f ms  hidden behind backward or not\n", "communication",
                   1000 * mean.communication);
  text += format("  %-24s %10.3f ms  logs, checkpoints, comparisons\n", "between steps", 1000 * mean.between);
  return text;
}

std::string megabytes(std::size_t bytes) {
  return format("%.1f MB", static_cast<double>(bytes) / 1e6);
}

std::string memory_table(const MemoryTable& memory) {
  const std::array<std::pair<const char*, std::size_t>, 11> rows = {
      {{"parameters", memory.parameters},
       {"gradients", memory.gradients},
       {"optimizer state", memory.optimizer_state},
       {"average of weights", memory.average},
       {"activations", memory.activations},
       {"workspace", memory.workspace},
       {"data", memory.data},
       {"copy for checkpoints", memory.checkpoint},
       {"other replicas", memory.replicas},
       {"process before the run", memory.empty_process},
       {"peak of the process", memory.peak_resident}}};
  std::string text = "memory of a rank:\n";
  for (const auto& [name, bytes] : rows)
    if (bytes > 0) text += format("  %-24s %12s\n", name, megabytes(bytes).c_str());
  return text;
}

}  // namespace muster::train
