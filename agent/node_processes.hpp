// SPDX-License-Identifier: Apache-2.0
// The processes of one node: guardian, rendezvous daemon (on the coordinator's node), agent.
#pragma once

#include "agent/node_options.hpp"

namespace muster::agent {

/// Body of the guardian; call it in a process without threads. In a job of several nodes it opens the
/// coordinator's socket if this is its node (or, where that was only inferred and the port is taken, becomes
/// a client), forks the others, and returns the exit code when no process below it is left. Throws
/// std::exception if the socket cannot be had.
int run_node_processes(NodeProcesses node);

}  // namespace muster::agent
