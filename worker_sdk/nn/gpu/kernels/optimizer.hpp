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

  /// A thread has four floats: begin and end are multiples of kArenaStep.
  constexpr int blocks() const { return blocks_for((end - begin) / 4); }

  MUSTER_HD std::int64_t first(const Place& place) const { return begin + 4 * number_of(place); }

  MUSTER_HD bool is_stepped(std::int64_t i) const { return i<end&& * samples> 0; }

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

  constexpr int blocks() const { return part.blocks(); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = part.first(place);
    if (!part.is_stepped(i)) return;
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
    const std::int64_t i = part.first(place);
    if (!part.is_stepped(i)) return;
    Quad values = fetch_words<Quad>(part.values + i);
    Quad means = fetch_words<Quad>(mean + i);
    Quad squares = fetch_words<Quad>(square + i);
    const Quad gradients = fetch_words<Quad>(part.gradients + i);
    const StepValues step = *part.step;
    const float own_decay = part.decays[i / kArenaStep] != 0 ? decay : 0.0F;
    for (int k = 0; k < 4; ++k) {
      float value = values.v[k];
      if (decoupled) value *= 1.0F - step.rate * own_decay;
      const float gradient = part.mean(gradients.v[k]) + (decoupled ? 0.0F : own_decay * value);
      const float m = beta1 * means.v[k] + one_less_beta1 * gradient;
      const float s = beta2 * squares.v[k] + one_less_beta2 * gradient * gradient;
      means.v[k] = m;
      squares.v[k] = s;
      values.v[k] = value - step.adam_step * (m / (sqrtf(s) / step.adam_root + epsilon));
    }
    store_words(part.values + i, values);
    store_words(mean + i, means);
    store_words(square + i, squares);
  }
};

}  // namespace muster::nn::gpu
