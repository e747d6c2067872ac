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
/// to show: the kernel closes the connections of a process that it ends before it says that the process has
/// ended.
bool may_follow_a_loss(const ExitStatus& status);

/// Sorts ends that were seen together, given in the order in which they were seen, so that who was killed
/// goes before who left with an error. No signal of ours that stops workers was sent before. SIGABRT and
/// SIGPIPE are how a program may answer the loss of another rank, and count as an error.
std::vector<WorkerEnd> in_order_of_cause(std::vector<WorkerEnd> ends);

}  // namespace muster::agent
