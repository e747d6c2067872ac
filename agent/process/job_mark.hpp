// SPDX-License-Identifier: Apache-2.0
// Marks the processes of a job by a variable in their environment, so that they can be ended when nobody of
// ours is left who knew them.
#pragma once

#include "agent/process/process_tree.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// The variable that workers get, with job_mark() as its value.
inline constexpr std::string_view kJobMarkVariable = "MUSTER_JOB_MARK";

/// Names this process (an agent) and its parent (its guardian), with their start times and PID namespace.
std::string job_mark();

/// Whether both processes that `mark` names are gone. False for a mark of another PID namespace and for a
/// text that is no mark: nothing is known of those.
bool is_orphaned_mark(std::string_view mark);

/// Kills every process of our user whose job's guardian and agent have both been killed: as long as one of
/// them lives it ends them itself. This process, those above and those below it are left alone. Returns what
/// was killed. Reads the environment of all our processes: some milliseconds.
std::vector<ProcessStat> end_orphans();

}  // namespace muster::agent
