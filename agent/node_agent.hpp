// SPDX-License-Identifier: Apache-2.0
// The agent of one node: takes its orders from the launcher, joins rounds, runs workers, reports.
#pragma once

#include "agent/node_options.hpp"

namespace muster::agent {

/// Body of the agent process; call it from its only thread, after a fork. Returns when no process of the job
/// is left below it and the report has reached the launcher: 0, or 1 if there was no launcher any more.
int run_node_agent(const NodeAgentOptions& options);

}  // namespace muster::agent
