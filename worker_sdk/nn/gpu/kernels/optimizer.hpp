// SPDX-License-Identifier: Apache-2.0
// A step of SGD, Adam or AdamW over a range of the arena: the formulas of worker_sdk/nn/optim.
#pragma once

#include "worker_sdk/nn/gpu/kernels/pack.hpp"
#include "worker_sdk/nn/gpu/kernels/step_values.hpp"

#include <cmath>
#include <cstdint>

namespace muster::nn::gpu {

/// Parameters begin at multiples of this many floats; each stretch has one flag for weight decay.
constexpr int kArenaStep = 16;

/// The floats [begin, end) of the arenas.
struct ArenaPart {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  float* values;
  const float* gradients;      ///< sums over the samples of all ranks
  const float* samples;        ///< how many they are; without any the step is left out
  const float* clip;           ///< what gradients are multiplied with; null: 1
  const std::uint8_t* decays;  ///< one for each kArenaStep floats
  const StepValues* step;

  constexpr int blocks() const { return blocks_for(end - begin); }

  /// The mean gradient over the samples, clipped.
  MUSTER_HD float mean(float gradient) const {
    const float all = gradient / *samples;
    return clip == nullptr ? all : all * *clip;
  }
};

struct SgdStep {
  ArenaPart part;
  float* velocity;  ///< null: no momentum
  float momentum;
  float decay;
  bool nesterov;

  constexpr int blocks() const { return blocks_for((part.end - part.begin) / 4); }

  /// Four floats of a parameter: begin and end are multiples of kArenaStep.
  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = part.begin + 4 * number_of(place);
    if (i >= part.end || !(*part.samples > 0)) return;
    Quad values = fetch_words<Quad>(part.values + i);
    const Quad gradients = fetch_words<Quad>(part.gradients + i);
    Quad velocities = velocity != nullptr ? fetch_words<Quad>(velocity + i) : Quad{};
    const float own_decay = part.decays[i / kArenaStep] != 0 ? decay : 0.0F;
    for (int k = 0; k < 4; ++k) {
      const float gradient = part.mean(gradients.v[k]) + own_decay * values.v[k];
      velocities.v[k] = velocity != nullptr ? momentum * velocities.v[k] + gradient : gradient;
      const float move =
          nesterov && velocity != nullptr ? gradient + momentum * velocities.v[k] : velocities.v[k];
      values.v[k] -= part.step->rate * move;
    }
    store_words(part.values + i, values);
    if (velocity != nullptr) store_words(velocity + i, velocities);
  }
};

struct AdamStep {
  ArenaPart part;
  float* mean;
  float* square;
  float beta1;
  float one_less_beta1;
  float beta2;
  float one_less_beta2;
  float epsilon;
  float decay;
  bool decoupled;  ///< AdamW

  constexpr int blocks() const { return part.blocks(); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = part.begin + number_of(place);
    if (i >= part.end || !(*part.samples > 0)) return;
    const float own_decay = part.decays[i / kArenaStep] != 0 ? decay : 0.0F;
    float value = part.values[i];
    if (decoupled) value *= 1.0F - part.step->rate * own_decay;
    const float gradient = part.mean(part.gradients[i]) + (decoupled ? 0.0F : own_decay * value);
    const float m = beta1 * mean[i] + one_less_beta1 * gradient;
    const float s = beta2 * square[i] + one_less_beta2 * gradient * gradient;
    mean[i] = m;
    square[i] = s;
    part.values[i] = value - part.step->adam_step * (m / (sqrtf(s) / part.step->adam_root + epsilon));
  }
};

}  // namespace muster::nn::gpu
