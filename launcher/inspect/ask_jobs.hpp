// SPDX-License-Identifier: Apache-2.0
// Asks hosts for their jobs, over ssh as `muster run` starts its agents.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/core/node_plan.hpp"
#include "launcher/inspect/core/host_jobs.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

/// Returns the jobs of this user on each of `hosts`, in their order, or why a host has not answered. A host
/// that is this machine needs no ssh. `ended`: also those that have ended. Takes at most 10 s and the login
/// for each 32 hosts. Throws LaunchError.
std::vector<HostJobs> ask_jobs(const std::vector<NodePlan>& hosts, RemoteOptions options, bool ended,
                               const std::string& version, const agent::SignalState& signals);

}  // namespace muster::launcher
