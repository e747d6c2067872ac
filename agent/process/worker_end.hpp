// SPDX-License-Identifier: Apache-2.0
// How a worker's process ends, as the kernel shows it.
#pragma once

#include "agent/core/end_order.hpp"

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

namespace muster::agent {

/// Reaps the child behind `pidfd`; nullopt if it has not ended.
std::optional<WorkerEnd> reap_worker(int local_rank, int pidfd);

/// Reads the texts of /proc/<pid>/task/<tid>/stat and status: the thread has ended, is in the kernel on its
/// way out, or has SIGKILL before it. It will not run its program any more. Format: proc(5).
bool thread_is_ending(const std::string& stat, const std::string& status);

/// Every thread of the process is; false if that cannot be seen.
bool is_ending(pid_t pid);

/// Waits until the process behind `pidfd` can be reaped, or `deadline` has passed.
void wait_for_end(int pidfd, std::chrono::steady_clock::time_point deadline);

}  // namespace muster::agent
