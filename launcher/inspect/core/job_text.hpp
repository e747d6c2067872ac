// SPDX-License-Identifier: Apache-2.0
// What `muster ps`, `status` and `stacks` print of jobs. Pure; every text is safe for a terminal.
#pragma once

#include "launcher/inspect/core/ended_job.hpp"
#include "launcher/inspect/core/job_query.hpp"
#include "launcher/inspect/core/screen.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster::launcher {

/// Returns one line for each job, under a line of names; NAME stands there where a job has one. `now_ms`:
/// milliseconds since 1970.
std::string jobs_table(const std::vector<JobCard>& jobs, std::int64_t now_ms);

/// Returns the same with those that have ended behind the others, and a column STATE: "ended (143) 5 s ago".
std::string all_jobs_table(const std::vector<JobCard>& jobs, const std::vector<EndedJob>& ended,
                           std::int64_t now_ms);

/// Returns how a job has ended, some lines.
std::string ended_text(const EndedJob& job, std::int64_t now_ms);

/// Returns the job, whether it is hung or idle, its restarts and nodes, and a line for each rank. Columns
/// about which nothing is known of any rank are left out, and that of hosts where there is one.
std::string status_text(const JobAnswer& answer);

/// Returns the same as a picture that fits a terminal of this size, of at least 20 columns and 4 rows: lines
/// are cut, the verdict on a hang is wrapped, and what does not fit is counted ("... 12 more ranks").
Picture status_picture(const JobAnswer& answer, ScreenSize size);

/// Returns where the ranks are in their Python code: equal stacks once, the user's own line first, main
/// threads before others; then, if it was asked for, in their machine code.
std::string stacks_text(const JobAnswer& answer);

/// Lines up the cells of rows; the last cell of each row is as long as it is.
std::string table(const std::vector<std::vector<std::string>>& rows);

/// Returns "4 s", "12 min 5 s", "3 h 10 min", "2 d 4 h".
std::string duration_text(std::int64_t milliseconds);

}  // namespace muster::launcher
