// SPDX-License-Identifier: Apache-2.0
// Reads from the kernel how a worker's process ends.
#pragma once

#include "agent/core/end_order.hpp"

#include <sys/types.h>

#include <optional>
#include <string>

namespace muster::agent {

/// Reaps the child behind `pidfd`; nullopt if it has not ended.
std::optional<WorkerEnd> reap_worker(int local_rank, int pidfd);

/// Reads the text of /proc/<pid>/status: SIGKILL was sent to the process, which has not been reaped yet.
/// Format: proc(5). That somebody has sent it stays visible (ShdPnd) until then; an exit of a program that
/// has several threads shows in SigPnd alone.
bool has_kill_pending(const std::string& status);

/// The same of a process; false if that cannot be seen.
bool is_being_killed(pid_t pid);

}  // namespace muster::agent
