// SPDX-License-Identifier: Apache-2.0
// This host as one of a job's nodes: by fork alone.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/start/started_process.hpp"

#include <string>

namespace muster::launcher {

/// Forks a process that is what `muster agent` is elsewhere, with a socket pair as its link. Call before any
/// thread or event loop exists in this process. Throws std::system_error when the kernel refuses a process or
/// descriptor.
StartedProcess fork_local_node(const std::string& version, const agent::SignalState& signals);

}  // namespace muster::launcher
