// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace muster {

/// Sums over the ranks of a world, for batch norm over the whole batch of a step (SyncBatchNorm).
class StatisticsExchange {
 public:
  virtual ~StatisticsExchange() = default;

  /// Replaces each value by its sum over all ranks, the same bits on all. Every rank calls it equally often,
  /// with equally many values. Throws Error when a rank fails or the deadline passes.
  virtual void sum(std::span<double> values) = 0;
};

}  // namespace muster
