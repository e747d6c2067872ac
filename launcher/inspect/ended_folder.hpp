// SPDX-License-Identifier: Apache-2.0
// The records of jobs that have ended: /tmp/muster-UID/ended/JOB, files for nobody else.
#pragma once

#include "launcher/inspect/core/ended_job.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::launcher {

/// Keeps a record below `base`, the folder of all jobs, and drops those that are too old or too many when
/// there are some more than kEndedMost. What cannot be kept is not: a job has ended all the same. `now_ms`:
/// milliseconds since 1970.
void keep_ended(const std::string& base, const EndedJob& job, std::int64_t now_ms);

/// Returns the last kEndedMost records below `base`, the oldest end first. Those that are too old, and files
/// that are no records, are left out.
std::vector<EndedJob> find_ended(const std::string& base, std::int64_t now_ms);

/// Removes all of them; returns how many there were.
std::size_t remove_ended(const std::string& base);

}  // namespace muster::launcher
