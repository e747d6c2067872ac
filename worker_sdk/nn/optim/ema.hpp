// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/optim/optimizer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster::optim {

/// Exponential moving average of parameters, for evaluation and export (Polyak & Juditsky 1992; the form of
/// torch.optim.swa_utils.get_ema_multi_avg_fn): average += (1 - decay) * (value - average). The first step
/// copies. One thread.
class Ema {
 public:
  /// `decay` in [0, 1), for example 0.999.
  Ema(std::size_t elements, double decay);

  /// Moves the floats [begin, end) of the average towards those at `values`, behind step number `step`, of
  /// which 1 is the first. Every element once in a step, in any cut: the same bits. Uses the calling thread's
  /// OpenMP threads.
  void update(const float* values, std::size_t begin, std::size_t end, std::int64_t step);
  /// Exchanges the floats of the average from `begin` on with `values`: before an evaluation, and again after
  /// it.
  void swap(std::span<float> values, std::size_t begin = 0);

  /// The average, for a checkpoint.
  StateArena state() { return {"ema", average_}; }

 private:
  const float share_;
  std::vector<float> average_;
};

}  // namespace muster::optim
