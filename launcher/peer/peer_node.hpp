// SPDX-License-Identifier: Apache-2.0
// This host's node of a job that somebody started on every host.
#pragma once

#include "agent/node_processes.hpp"
#include "launcher/core/job_spec.hpp"

namespace muster::launcher {

/// Its part and its key. Decides where the coordinator listens, if that runs here. Throws LaunchError.
agent::NodeProcesses prepare_peer_node(const JobSpec& job);

}  // namespace muster::launcher
