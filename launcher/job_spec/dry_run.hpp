// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/core/job_spec.hpp"

#include <string>

namespace muster::launcher {

/// What --dry-run prints: the job as indented JSON, schema "muster.job" (docs/report.md). Pure.
std::string to_json(const JobSpec& spec);

/// The placement for people, one line for each node; empty for a job of this machine. Pure.
std::string placement_table(const JobSpec& spec);

}  // namespace muster::launcher
