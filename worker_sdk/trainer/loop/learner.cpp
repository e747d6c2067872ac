// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/loop/learner.hpp"

#include <cmath>
#include <limits>

namespace muster::train {

std::size_t NamedTensor::elements() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

std::optional<MicroBatches> fixed_micro_batches(const LearnerOptions& options, const ProcessGroup* group) {
  if (options.reducer.deterministic_micro_batches == 0) return std::nullopt;
  if (options.sync_batch_norm)
    throw Error(
        ErrorCode::invalid_argument,
        "a deterministic world computes batch norm over each micro-batch; leave --sync-batch-norm out");
  return share_micro_batches(options.reducer.deterministic_micro_batches, group);
}

Error diverged(std::int64_t step, int rank, const std::string& layer) {
  return {ErrorCode::invalid_argument, "step " + std::to_string(step) + ": the loss of rank " +
                                           std::to_string(rank) + " is no longer a number" +
                                           (layer.empty() ? std::string() : ", first in layer " + layer) +
                                           "; training diverged: try a smaller --lr, or --clip-norm 1"};
}

void require_finite_loss(ProcessGroup* group, std::int64_t step, double own, double sum) {
  if (std::isfinite(sum)) return;
  std::int32_t rank = 0;
  if (group != nullptr && group->size() > 1) {
    rank = std::isfinite(own) ? std::numeric_limits<std::int32_t>::max() : group->rank();
    group->all_reduce(&rank, 1, DataType::i32, ReduceOp::min);
  }
  throw diverged(step, rank, "");
}

}  // namespace muster::train
