// SPDX-License-Identifier: Apache-2.0
#include "agent/core/end_order.hpp"

#include <algorithm>
#include <csignal>

namespace muster::agent {

bool may_follow_a_loss(const ExitStatus& status) {
  const bool answer = status.value == SIGABRT || status.value == SIGPIPE;
  return !status.success() && (status.kind == ExitStatus::Kind::exited || answer);
}

std::vector<WorkerEnd> in_order_of_cause(std::vector<WorkerEnd> ends) {
  std::stable_partition(ends.begin(), ends.end(), [](const WorkerEnd& end) {
    return end.status.kind == ExitStatus::Kind::signaled && !may_follow_a_loss(end.status);
  });
  return ends;
}

}  // namespace muster::agent
