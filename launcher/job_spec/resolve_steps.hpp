// SPDX-License-Identifier: Apache-2.0
// The steps of resolve_job(): each fills its part of the job, in the order in which resolve_job() calls them.
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

/// Fills in backend, job id, nodes and the address of the workers' store, by the rules of torchrun 2.14 for
/// one node. Throws UsageError for what needs more than this machine.
void resolve_rendezvous(const CliOptions& options, const System& system, ResolvedJob& job);

/// Whether the endpoint is any free port (c10d, HOST:0), which no other node can find, and one node is
/// enough.
bool meets_at_free_port(const CliOptions& options);

/// Whether the same command is meant to run on every host (torchrun's way): more than one node, and a flag
/// that says how nodes meet.
bool is_peer_form(const CliOptions& options);

/// Finds where the nodes meet, who hosts the coordinator, and this node's place, by torchrun's rules for c10d
/// and static. Fills job.spec.peer and job.spec.agent.node. Throws UsageError.
void resolve_peer(const CliOptions& options, const System& system, ResolvedJob& job);

/// Fill in what all peers have in common: the first before anything says who meets where, the second after
/// that.
void begin_peer(const CliOptions& options, JobSpec& spec);
void finish_peer(JobSpec& spec);

/// Returns what Slurm's variables say about us. Throws UsageError.
SlurmPlace slurm_place_of(const System& system);

/// Returns the workers on this node of a step when no flag says so: one for each of its GPUs, else one.
int workers_of_step(const SlurmPlace& step);

/// Makes the tasks of a step, one on each node, the peers of a job: they meet on the first node, at a port
/// made of job and step, in the order of the step's nodes. Fills spec.peer and spec.agent.node. Throws
/// UsageError.
void resolve_step(const CliOptions& options, const SlurmPlace& step, JobSpec& spec);

}  // namespace muster::launcher
