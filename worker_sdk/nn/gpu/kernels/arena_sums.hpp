// SPDX-License-Identifier: Apache-2.0
// What goes over whole arenas beside the optimizers: gradients of several micro-batches, the norm of the
// gradient, the moving average of the weights.
#pragma once

#include "worker_sdk/nn/gpu/kernels/block_sums.hpp"
#include "worker_sdk/nn/gpu/kernels/step_values.hpp"

#include <cmath>
#include <cstdint>

namespace muster::nn::gpu {

/// The floats [begin, end) of two arenas.
struct ArenaRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  constexpr int blocks() const { return blocks_for(end - begin); }
};

/// Adds (to += from), or copies (to = from).
struct AddGradients {
  ArenaRange range;
  const float* from;
  bool add;
  float* to;

  constexpr int blocks() const { return range.blocks(); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = range.begin + number_of(place);
    if (i < range.end) to[i] = add ? to[i] + from[i] : from[i];
  }
};

/// A part of one parameter's gradient, as parallel::NormBlock.
struct NormBlock {
  std::int64_t offset;
  std::int64_t count;
};

/// The sum of squares of each block, in a fixed order.
struct SquareSums {
  using Shared = BlockSums<1>;
  static constexpr int kPhases = Shared::kSteps + 2;

  int count;  ///< number of blocks
  const NormBlock* norm_blocks;
  const float* gradients;
  double* partials;  ///< one for each block

  constexpr int blocks() const { return count > 0 ? count : 1; }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (place.block >= count) return;
    if (p == 0) {
      const NormBlock block = norm_blocks[place.block];
      double sum = 0;
      for (std::int64_t i = place.thread; i < block.count; i += kBlockThreads) {
        const auto value = static_cast<double>(gradients[block.offset + i]);
        sum += value * value;
      }
      shared.sums[0][place.thread] = sum;
      return;
    }
    if (p <= Shared::kSteps) return shared.step(p, place.thread);
    if (place.thread == 0) partials[place.block] = shared.sums[0][0];
  }
};

/// Computes the factor that brings the L2 norm of the mean gradient down to `most`, as
/// torch.nn.utils.clip_grad_norm_ has it: min(1, most / (norm + 1e-6)). Where gradients are a multiple, it
/// makes them the ones themselves, too; a norm that is not finite then leaves the step out.
struct ClipFactor {
  using Shared = BlockSums<1>;
  static constexpr int kPhases = Shared::kSteps + 2;

  int count;  ///< number of partial sums
  const double* partials;
  float* samples;
  double most;
  const StepValues* step;
  double* overflow;  ///< set to 1 where a gradient was too large; null: gradients are no multiple
  float* factor;

  constexpr int blocks() const { return 1; }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p == 0) {
      double sum = 0;
      for (int i = place.thread; i < count; i += kBlockThreads) sum += partials[i];
      shared.sums[0][place.thread] = sum;
      return;
    }
    if (p <= Shared::kSteps) return shared.step(p, place.thread);
    if (place.thread != 0) return;
    const double squares = shared.sums[0][0];
    if (overflow != nullptr && squares - squares != 0) {
      *overflow = 1;
      *samples = 0;
      return;
    }
    const auto images = static_cast<double>(*samples);
    const auto multiple = static_cast<double>(step->loss_factor);
    const double norm = images > 0 ? sqrt(squares) / images / multiple : 0;
    const double wanted = most / (norm + 1e-6);
    // What is not a number is not hidden.
    *factor = static_cast<float>((wanted >= 1 ? 1.0 : wanted) / multiple);
  }
};

/// average += share * (value - average), as optim::Ema.
struct MoveAverage {
  ArenaRange range;
  const double* overflow;  ///< not 0 where the step is left out; null: it never is
  const float* values;
  const StepValues* step;
  float* average;

  constexpr int blocks() const { return range.blocks(); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = range.begin + number_of(place);
    if (i >= range.end || (overflow != nullptr && *overflow != 0)) return;
    const float share = step->average_share;
    average[i] = share >= 1 ? values[i] : average[i] + share * (values[i] - average[i]);
  }
};

struct SwapArenas {
  ArenaRange range;
  float* one;
  float* other;

  constexpr int blocks() const { return range.blocks(); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = range.begin + number_of(place);
    if (i >= range.end) return;
    const float kept = one[i];
    one[i] = other[i];
    other[i] = kept;
  }
};

}  // namespace muster::nn::gpu
