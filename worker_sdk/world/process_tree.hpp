// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

namespace muster {

/// Processes whose parent this one is, by /proc.
std::vector<pid_t> children_of_this_process();

/// Kills and reaps all children of this process until none is left, or `deadline`. In a child subreaper that
/// is the whole tree: what a killed process leaves comes here. False at the deadline.
bool kill_children(std::chrono::steady_clock::time_point deadline);

}  // namespace muster
