// SPDX-License-Identifier: Apache-2.0
// optim_trace: our optimizers and schedules on numbers that somebody else gives, for comparison.
//   optim_trace optimizer KIND MOMENTUM NESTEROV DECAY RATE DECAYING STEPS EMA < values and gradients >
//   values, each step
//     The first DECAYING values have weight decay. 32-bit floats; the average of weights follows the last
//     step.
//   optim_trace schedule KIND RATE STEPS STEP_STEPS GAMMA MINIMUM WARMUP WARMUP_START     one rate per line
#include "worker_sdk/nn/optim/ema.hpp"
#include "worker_sdk/nn/optim/optimizer.hpp"
#include "worker_sdk/nn/optim/schedule.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

std::vector<float> read_all() {
  std::vector<float> numbers;
  float number = 0;
  while (std::fread(&number, sizeof number, 1, stdin) == 1) numbers.push_back(number);
  return numbers;
}

void write(const std::vector<float>& values) {
  std::fwrite(values.data(), sizeof(float), values.size(), stdout);
}

void trace_optimizer(char** words) {
  muster::optim::OptimizerOptions options;
  options.kind = words[0];
  options.momentum = std::strtod(words[1], nullptr);
  options.nesterov = std::string(words[2]) == "1";
  options.weight_decay = std::strtod(words[3], nullptr);
  const float rate = std::strtof(words[4], nullptr);
  const auto decaying = static_cast<std::size_t>(std::atoll(words[5]));
  const auto steps = static_cast<std::size_t>(std::atoll(words[6]));
  const std::vector<float> given = read_all();
  const std::size_t count = given.size() / (steps + 1);
  std::vector<float> values(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<float> gradients(count);
  muster::optim::Ema average(count, std::strtod(words[7], nullptr));
  const auto optimizer =
      muster::optim::make_optimizer(options, {values.data(), gradients.data(), count, {{0, decaying}}});
  for (std::size_t step = 1; step <= steps; ++step) {
    const auto from = given.begin() + static_cast<std::ptrdiff_t>(step * count);
    gradients.assign(from, from + static_cast<std::ptrdiff_t>(count));
    optimizer->begin_step();
    optimizer->step(0, count / 3, rate, 1);
    optimizer->step(count / 3, count, rate, 1);
    average.update(values.data(), 0, count, static_cast<std::int64_t>(step));
    write(values);
  }
  average.swap(values);
  write(values);
}

void trace_schedule(char** words) {
  muster::optim::ScheduleOptions options;
  options.kind = muster::optim::schedule_kind(words[0]);
  options.rate = std::strtod(words[1], nullptr);
  options.total_steps = std::atoll(words[2]);
  options.step_steps = std::atoll(words[3]);
  options.gamma = std::strtod(words[4], nullptr);
  options.minimum = std::strtod(words[5], nullptr);
  options.warmup_steps = std::atoll(words[6]);
  options.warmup_start = std::strtod(words[7], nullptr);
  const muster::optim::Schedule schedule(options);
  for (std::int64_t step = 0; step < options.total_steps; ++step)
    std::printf("%.9g\n", static_cast<double>(schedule.at(step)));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 1 ? argv[1] : "";
    if (argc != 10) throw std::invalid_argument("optim_trace takes nine words");
    what == "optimizer" ? trace_optimizer(argv + 2) : trace_schedule(argv + 2);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "optim_trace: %s\n", error.what());
    return 1;
  }
}
