// SPDX-License-Identifier: Apache-2.0
// A job whose agents are started from here on the hosts of JobSpec::nodes.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/start/node_starter.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace muster::launcher {

struct JobSpec;

struct NodesJobOptions {
  /// Ours; agents of another one are refused.
  std::string version;
  agent::SignalState signals;
  /// Children that this process had before.
  std::vector<pid_t> not_ours;
};

/// Runs it to its end, prints the report, and returns the exit code. Blocks; called from the main thread
/// before any other thread exists. `starter` starts the nodes that are not this host.
int run_nodes_job(const JobSpec& spec, NodeStarter& starter, const NodesJobOptions& options);

}  // namespace muster::launcher
