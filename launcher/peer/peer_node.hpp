// SPDX-License-Identifier: Apache-2.0
// This host's node of a job that somebody started on every host.
#pragma once

#include "launcher/agent_starter_local.hpp"
#include "launcher/core/job_spec.hpp"

namespace muster::launcher {

/// Gets the key and, where the coordinator runs here, decides where it listens. Throws LaunchError.
LocalNode prepare_peer_node(const JobSpec& job);

}  // namespace muster::launcher
