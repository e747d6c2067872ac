// SPDX-License-Identifier: Apache-2.0
// Finds which of several workers that ended at nearly the same time was the cause of the others' ends. Pure.
#pragma once

#include "agent/core/exit_status.hpp"

#include <cstdint>
#include <vector>

namespace muster::agent {

struct WorkerEnd {
  int local_rank = 0;
  ExitStatus status{};
  /// The limit of CPU time, in seconds, for which the kernel ended the worker; 0: it did not.
  std::int64_t cpu_limit_s = 0;
};

/// Whether a worker that ended like this may have left because another one was lost, whose end takes longer
/// to show: the kernel closes the connections of a process that it kills before it says that the process has
/// ended. A crash may be such an answer, too; SIGKILL comes from elsewhere.
bool may_follow_a_loss(const ExitStatus& status);

/// Sorts ends that are given in the order in which they were seen, so that who was killed by SIGKILL goes
/// before the others. No signal of ours that stops workers was sent before.
std::vector<WorkerEnd> in_order_of_cause(std::vector<WorkerEnd> ends);

}  // namespace muster::agent
