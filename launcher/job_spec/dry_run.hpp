// SPDX-License-Identifier: Apache-2.0
// What --dry-run prints: what became of the command line. Pure.
#pragma once

#include "launcher/core/job_spec.hpp"
#include "rendezvous/base/allowance.hpp"

#include <string>

namespace muster::launcher {

/// Returns what --dry-run prints: the job as indented JSON, schema "muster.job" (docs/report.md), and what we
/// may use here. Pure.
std::string to_json(const JobSpec& spec, const Allowance& here);

/// Returns the limits of our control groups for people, in one line; empty if there is none. Pure.
std::string allowance_text(const Allowance& here);

/// Returns the placement for people, one line for each node; empty for a job of this machine. Pure.
std::string placement_table(const JobSpec& spec);

}  // namespace muster::launcher
