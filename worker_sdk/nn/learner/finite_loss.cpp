// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/learner/finite_loss.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <string>

namespace muster::train {

Error diverged(std::int64_t step, int rank, const std::string& layer, const std::string& advice) {
  return {ErrorCode::invalid_argument, "step " + std::to_string(step) + ": the loss of rank " +
                                           std::to_string(rank) + " is no longer a number" +
                                           (layer.empty() ? std::string() : ", first in layer " + layer) +
                                           "; training diverged: " + advice};
}

void require_finite_loss(ProcessGroup* group, std::int64_t step, double own, double sum,
                         const std::string& advice, const std::function<std::string()>& find_layer) {
  if (std::isfinite(sum)) return;
  const bool alone = group == nullptr || group->size() == 1;
  std::int32_t rank = 0;
  if (!alone) {
    rank = std::isfinite(own) ? std::numeric_limits<std::int32_t>::max() : group->rank();
    group->all_reduce(&rank, 1, DataType::i32, ReduceOp::min);
  }
  if (!find_layer) throw diverged(step, rank, "", advice);
  // Longer than any layer's name; what is behind it is zero.
  std::array<char, 128> name = {};
  const std::string layer = find_layer();
  if (alone || rank == group->rank()) layer.copy(name.data(), name.size() - 1);
  if (!alone) group->broadcast(name.data(), name.size(), rank);
  throw diverged(step, rank, name.data(), advice);
}

}  // namespace muster::train
