// SPDX-License-Identifier: Apache-2.0
// Runs `muster doctor` on other hosts, over ssh as `muster run` starts its agents.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/core/node_plan.hpp"
#include "launcher/doctor/core/findings.hpp"
#include "launcher/doctor/read_host.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

/// Returns a report for each of `hosts`, in their order, with the facts alone, or, where a host could not be
/// asked, with the one finding that says why. A host that is this machine needs no ssh. The first host is
/// asked for its way to the second one, the others for theirs to the first, unless `question` names a host.
/// Takes at most 20 s and the login for the first host, and the same for each 32 of the others. Throws
/// LaunchError.
std::vector<HostReport> ask_hosts(const std::vector<NodePlan>& hosts, RemoteOptions options,
                                  HostQuestion question, const agent::SignalState& signals);

}  // namespace muster::launcher
