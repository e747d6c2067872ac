// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/job_spec/resolve_job.hpp"
#include "launcher/slurm/slurm_place.hpp"

namespace muster::launcher {

/// What Slurm's variables say about us. Throws UsageError.
SlurmPlace slurm_place_of(const System& system);

/// Workers on this node of a step when no flag says so: one for each of its GPUs, else one.
int workers_of_step(const SlurmPlace& step);

/// The tasks of a step, one on each node, are the peers of a job: they meet on the first node, at a port made
/// of job and step, in the order of the step's nodes. Fills spec.peer and spec.agent.node. Throws UsageError.
void resolve_step(const CliOptions& options, const SlurmPlace& step, JobSpec& spec);

}  // namespace muster::launcher
