// SPDX-License-Identifier: Apache-2.0
#include "agent/core/end_order.hpp"

#include <algorithm>

namespace muster::agent {

bool may_follow_a_loss(const ExitStatus& status) {
  return !status.success() && !status.killed();
}

std::vector<WorkerEnd> in_order_of_cause(std::vector<WorkerEnd> ends) {
  std::stable_partition(ends.begin(), ends.end(), [](const WorkerEnd& end) { return end.status.killed(); });
  return ends;
}

}  // namespace muster::agent
