// SPDX-License-Identifier: Apache-2.0
// What differs from step to step. A captured graph replays kernels with the arguments of the capture, so
// these numbers lie in device memory, written by a kernel of their own before the graph is launched.
#pragma once

#include "worker_sdk/nn/gpu/kernels/kernel.hpp"

#include <cstdint>

namespace muster::nn::gpu {

struct StepValues {
  std::int64_t position = 0;  ///< place of the batch's first image in the rank's list of indices
  std::int32_t epoch = 0;
  std::int32_t augment = 0;  ///< whether images are cropped and flipped
  float rate = 0;            ///< the learning rate
  float adam_step = 0;       ///< rate / (1 - beta1^t)
  float adam_root = 1;       ///< sqrt(1 - beta2^t)
  float average_share = 1;   ///< share of the new weights in their moving average
  float loss_factor = 1;  ///< what gradients are a multiple by (train::LossScale), and are divided by again
};

struct SetValues {
  static constexpr int kThreads = 1;

  StepValues values;
  StepValues* to;

  constexpr int blocks() const { return 1; }

  MUSTER_HD void phase(int, const Place&, Nothing&) const { *to = values; }
};

/// Writes the number of images that this rank puts into a step, to the place where it is summed with those of
/// the other ranks. `add`: adds to those of the step's micro-batches before.
struct SetSamples {
  static constexpr int kThreads = 1;

  float samples;
  bool add;
  float* to;

  constexpr int blocks() const { return 1; }

  MUSTER_HD void phase(int, const Place&, Nothing&) const { *to = samples + (add ? *to : 0.0F); }
};

/// Numbers of a tally: the score of a batch (AddScore), two that the host puts there, and whether a gradient
/// was too large (ClipFactor).
constexpr int kTallyNumbers = 6;
constexpr int kTallyOverflow = 5;

/// Begins a new tally.
struct SetTally {
  static constexpr int kThreads = 1;

  double first;
  double second;
  double* to;

  constexpr int blocks() const { return 1; }

  MUSTER_HD void phase(int, const Place&, Nothing&) const {
    to[0] = to[1] = to[2] = 0;
    to[3] = first;
    to[4] = second;
    to[kTallyOverflow] = 0;
  }
};

}  // namespace muster::nn::gpu
