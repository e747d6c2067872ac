// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/loop/learner.hpp"

#include <cmath>
#include <limits>

namespace muster::train {

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
