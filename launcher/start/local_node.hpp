// SPDX-License-Identifier: Apache-2.0
// Starts nodes of this host by fork alone, which is the fastest start there is. Call these functions before
// any thread or event loop exists in this process. They throw std::system_error when the kernel refuses a
// process or descriptor.
#pragma once

#include "agent/node_processes.hpp"
#include "launcher/start/started_process.hpp"

#include <string>

namespace muster::launcher {

/// Forks the guardian of a node that knows its part, and whose workers have our own standard streams; link
/// and launcher are set here. StartedProcess::out is the link; ::err has the guardian's notices as link
/// messages (agent/process/link_frames.hpp), and ends with the guardian. The node closes `not_its`, a
/// descriptor that is the launcher's alone; -1: none.
StartedProcess fork_direct_node(agent::NodeProcesses node, int not_its = -1);

/// Forks a process that is what `muster agent` is elsewhere, with a socket pair as its link.
StartedProcess fork_local_node(const std::string& version, const agent::SignalState& signals);

}  // namespace muster::launcher
