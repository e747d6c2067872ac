// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/optim/optimizer.hpp"

#include <span>
#include <vector>

namespace muster::optim {

/// Exponential moving average of parameters, for evaluation and export (Polyak & Juditsky 1992; the form of
/// torch.optim.swa_utils.get_ema_multi_avg_fn): average += (1 - decay) * (value - average). The first update
/// copies. One thread.
class Ema {
 public:
  /// `decay` in [0, 1), for example 0.999.
  Ema(std::size_t elements, double decay);

  void update(std::span<const float> values);
  /// Exchanges the average with `values`: before an evaluation, and again after it. Does nothing before the
  /// first update.
  void swap(std::span<float> values);

  /// The average, for a checkpoint, together with updates().
  StateArena state() { return {"ema", average_}; }

  std::int64_t updates() const { return updates_; }

  void set_updates(std::int64_t updates) { updates_ = updates; }

 private:
  const float step_;
  std::int64_t updates_ = 0;
  std::vector<float> average_;
};

}  // namespace muster::optim
