// SPDX-License-Identifier: Apache-2.0
// The step of resolve_job() that says where the nodes of a job meet.
#pragma once

#include "launcher/job_spec/resolve_job.hpp"

namespace muster::launcher {

/// Fills in backend, job id, nodes and the address of the workers' store, by the rules of torchrun 2.14 for
/// one node. Throws UsageError for what needs more than this machine.
void resolve_rendezvous(const CliOptions& options, const System& system, ResolvedJob& job);

}  // namespace muster::launcher
