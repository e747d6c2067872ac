// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/optim/adam.hpp"

#include <cmath>
#include <utility>

namespace muster::optim {
namespace {

/// Everything that is the same for all elements of one step.
struct Factors {
  float scale;
  float beta1;
  float one_less_beta1;
  float beta2;
  float one_less_beta2;
  float epsilon;
  float step_size;        ///< rate / (1 - beta1^t)
  float root_correction;  ///< sqrt(1 - beta2^t)
  float shrink;           ///< of the value, before: AdamW
  float decay;            ///< into the gradient: Adam
};

void update(float* values, const float* gradients, float* mean, float* square, std::size_t count,
            const Factors& f) {
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < count; ++i) {
    const float value = values[i] * f.shrink;
    const float gradient = f.scale * gradients[i] + f.decay * value;
    const float m = f.beta1 * mean[i] + f.one_less_beta1 * gradient;
    const float s = f.beta2 * square[i] + f.one_less_beta2 * gradient * gradient;
    mean[i] = m;
    square[i] = s;
    values[i] = value - f.step_size * (m / (std::sqrt(s) / f.root_correction + f.epsilon));
  }
}

}  // namespace

Adam::Adam(const OptimizerOptions& options, Arena arena)
    : options_(options),
      arena_(std::move(arena)),
      decoupled_(options.kind == "adamw"),
      mean_(arena_.elements),
      square_(arena_.elements) {}

void Adam::step(std::size_t begin, std::size_t end, float learning_rate, float gradient_scale) {
  const auto t = static_cast<double>(steps());
  const double rate = static_cast<double>(learning_rate);
  Factors factors{};
  factors.scale = gradient_scale;
  factors.beta1 = static_cast<float>(options_.beta1);
  factors.one_less_beta1 = static_cast<float>(1 - options_.beta1);
  factors.beta2 = static_cast<float>(options_.beta2);
  factors.one_less_beta2 = static_cast<float>(1 - options_.beta2);
  factors.epsilon = static_cast<float>(options_.epsilon);
  factors.step_size = static_cast<float>(rate / (1 - std::pow(options_.beta1, t)));
  factors.root_correction = static_cast<float>(std::sqrt(1 - std::pow(options_.beta2, t)));
  for_each_piece(arena_.decay, begin, end, [&](std::size_t from, std::size_t to, bool decays) {
    const double decay = decays ? options_.weight_decay : 0;
    factors.shrink = decoupled_ ? static_cast<float>(1 - rate * decay) : 1.0F;
    factors.decay = decoupled_ ? 0.0F : static_cast<float>(decay);
    update(arena_.values + from, arena_.gradients + from, mean_.data() + from, square_.data() + from,
           to - from, factors);
  });
}

std::vector<StateArena> Adam::state() {
  return {{"exp_avg", mean_}, {"exp_avg_sq", square_}};
}

}  // namespace muster::optim
