// SPDX-License-Identifier: Apache-2.0
// What `muster ps`, `status` and `stacks` print of jobs. Pure; every text is safe for a terminal.
#pragma once

#include "launcher/inspect/core/job_query.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster::launcher {

/// Returns one line for each job, under a line of names. `now_ms`: milliseconds since 1970.
std::string jobs_table(const std::vector<JobCard>& jobs, std::int64_t now_ms);

/// Returns the job, its nodes, and a line for each rank.
std::string status_text(const JobAnswer& answer);

/// Returns where the ranks are in their Python code: equal stacks once, the user's own line first, main
/// threads before others.
std::string stacks_text(const JobAnswer& answer);

/// Returns "4 s", "12 min 5 s", "3 h 10 min", "2 d 4 h".
std::string duration_text(std::int64_t milliseconds);

}  // namespace muster::launcher
