// SPDX-License-Identifier: Apache-2.0
// The step of resolve_job() for a command that runs on every host, which is torchrun's way.
#pragma once

#include "launcher/job_spec/resolve_job.hpp"

namespace muster::launcher {

/// Whether the endpoint is any free port (c10d, HOST:0), which no other node can find, and one node is
/// enough.
bool meets_at_free_port(const CliOptions& options);

/// Whether the same command is meant to run on every host (torchrun's way): more than one node, and a flag
/// that says how nodes meet.
bool is_peer_form(const CliOptions& options);

/// Finds where the nodes meet, who hosts the coordinator, and this node's place, by torchrun's rules for c10d
/// and static. Fills job.spec.peer and job.spec.agent.node. Throws UsageError.
void resolve_peer(const CliOptions& options, const System& system, ResolvedJob& job);

/// Fills in what all peers have in common, whoever meets where. Number of nodes and backend are known before.
void begin_peer(const CliOptions& options, JobSpec& spec);

}  // namespace muster::launcher
