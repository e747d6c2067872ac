// SPDX-License-Identifier: Apache-2.0
// Sums the statistics of batch norm over the ranks.
#pragma once

#include <memory>
#include <span>

namespace muster {

class ProcessGroup;

/// Sums over the ranks of a world, for batch norm over the whole batch of a step (SyncBatchNorm).
class StatisticsExchange {
 public:
  virtual ~StatisticsExchange() = default;

  /// Replaces each value by its sum over all ranks, with the same bits on all. Every rank must call it
  /// equally often, with equally many values. Throws Error when a rank fails or the deadline passes.
  virtual void sum(std::span<double> values) = 0;
};

/// The exchange of SyncBatchNorm over a group of its own, split off `group`, so that it runs beside the
/// reducer. Sums in f64, in rank order: the same bits on all ranks and in every run. All ranks of `group`
/// call it alike, and call `sum` equally often, even a rank without samples (with zeros). If `group` is null
/// or a group of one, the exchange leaves values as they are. It must end before `group`.
std::unique_ptr<StatisticsExchange> make_group_statistics(ProcessGroup* group);

}  // namespace muster
