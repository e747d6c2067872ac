// SPDX-License-Identifier: Apache-2.0
// The step of resolve_job() that places the workers on hosts.
#pragma once

#include "launcher/job_spec/resolve_job.hpp"
#include "launcher/slurm/slurm_place.hpp"

namespace muster::launcher {

/// Finds who starts the agents, on which hosts, and how many workers each has. Fills spec.form, spec.nodes,
/// spec.remote and spec.agent.workers. One host that is this machine is a job of form local, however it was
/// named. Throws UsageError.
void resolve_hosts(const CliOptions& options, const System& system, ResolvedJob& job);

/// Fills in what workers get beside the defaults of their host: --wdir, --export and --stdin, and for other
/// hosts the variables that are exported by themselves. Throws UsageError.
void resolve_worker_environment(const CliOptions& options, const System& system, ResolvedJob& job);

/// Returns what Slurm's variables say about us. Throws UsageError.
SlurmPlace slurm_place_of(const System& system);

}  // namespace muster::launcher
