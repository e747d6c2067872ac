// SPDX-License-Identifier: Apache-2.0
// Which samples each rank works on in each step. Pure.
#pragma once

#include "worker_sdk/parallel/deterministic.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace muster::train {

/// The cut of a step's samples, of all ranks, into micro-batches.
struct StepShape {
  int rank = 0;
  int ranks = 1;
  /// Samples of one micro-batch of one rank.
  std::size_t batch_size = 64;
  /// Micro-batches of one rank in a step; their gradients are added (gradient accumulation).
  int accumulation = 1;
  /// The fixed micro-batches of this rank, in a deterministic world only. Then `batch_size` and
  /// `accumulation` say no more than how many samples a step has.
  std::optional<MicroBatches> fixed;

  /// Samples of a step of all ranks.
  std::size_t global_batch() const {
    return batch_size * static_cast<std::size_t>(accumulation) * static_cast<std::size_t>(ranks);
  }

  /// Batches that this rank computes in a step; some may be empty.
  int micro_batches() const { return fixed ? fixed->count : accumulation; }
};

/// Steps that `samples` samples take; the last may have fewer samples.
inline std::size_t steps_for(std::size_t samples, std::size_t global_batch) {
  return (samples + global_batch - 1) / global_batch;
}

/// The samples in the order in which all ranks together go through them in `epoch` (0 or more): a permutation
/// that depends on the arguments alone. At most 2^32 samples.
std::vector<std::uint32_t> epoch_order(std::size_t samples, std::uint64_t seed, int epoch);

/// The batches of this rank for the samples `order` of all ranks, micro_batches() for each step. Step k has
/// the samples [k * global_batch(), ...) of the order, so an epoch can go on from any step on any number of
/// ranks.
std::vector<std::vector<std::uint32_t>> plan_epoch(std::span<const std::uint32_t> order,
                                                   const StepShape& shape);

/// This rank's share of samples that are only looked at, in batches: each sample once over all ranks, the
/// same number of batches on each rank. None is larger than a micro-batch of a step.
std::vector<std::vector<std::uint32_t>> plan_evaluation(std::size_t samples, const StepShape& shape);

}  // namespace muster::train
