// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/optim/sgd.hpp"

#include <utility>

namespace muster::optim {
namespace {

struct Factors {
  float rate;
  float scale;
  float momentum;
  float decay;
};

void plain(float* values, const float* gradients, std::size_t count, const Factors& f) {
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < count; ++i)
    values[i] -= f.rate * (f.scale * gradients[i] + f.decay * values[i]);
}

void heavy_ball(float* values, const float* gradients, float* velocity, std::size_t count, const Factors& f) {
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = f.scale * gradients[i] + f.decay * values[i];
    const float next = f.momentum * velocity[i] + gradient;
    velocity[i] = next;
    values[i] -= f.rate * next;
  }
}

void nesterov(float* values, const float* gradients, float* velocity, std::size_t count, const Factors& f) {
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = f.scale * gradients[i] + f.decay * values[i];
    const float next = f.momentum * velocity[i] + gradient;
    velocity[i] = next;
    values[i] -= f.rate * (gradient + f.momentum * next);
  }
}

}  // namespace

Sgd::Sgd(const OptimizerOptions& options, Arena arena)
    : options_(options), arena_(std::move(arena)), velocity_(options.momentum > 0 ? arena_.elements : 0) {}

void Sgd::step(std::size_t begin, std::size_t end, float learning_rate, float gradient_scale) {
  for_each_piece(arena_.decay, begin, end, [&](std::size_t from, std::size_t to, bool decays) {
    const Factors factors{learning_rate, gradient_scale, static_cast<float>(options_.momentum),
                          decays ? static_cast<float>(options_.weight_decay) : 0.0F};
    float* values = arena_.values + from;
    const float* gradients = arena_.gradients + from;
    if (velocity_.empty())
      plain(values, gradients, to - from, factors);
    else if (options_.nesterov)
      nesterov(values, gradients, velocity_.data() + from, to - from, factors);
    else
      heavy_ball(values, gradients, velocity_.data() + from, to - from, factors);
  });
}

std::vector<StateArena> Sgd::state() {
  if (velocity_.empty()) return {};
  return {{"momentum", velocity_}};
}

}  // namespace muster::optim
