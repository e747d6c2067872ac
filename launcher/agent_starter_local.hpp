// SPDX-License-Identifier: Apache-2.0
// Starts guardian, store process and agent on this host: by fork alone, which is the fastest start there is.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/process/signal_state.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <sys/types.h>

#include <functional>

namespace muster::launcher {

/// A running agent, seen from the launcher.
struct LocalAgent {
  pid_t guardian = -1;
  /// Readable when the guardian is gone.
  UniqueFd guardian_pidfd;
  /// Connected to the agent (agent/launcher_link.hpp).
  UniqueFd link;
  /// Lines of text about processes of ours that died without being told to; ends with the guardian.
  UniqueFd notices;
};

/// What the guardian holds of that.
struct GuardianEnds {
  UniqueFd launcher_pidfd;
  UniqueFd link;
  UniqueFd notices;
};

/// Forks a process that is to become a guardian and runs `body` in it; what it returns is the exit code. What
/// it throws becomes a line of LocalAgent::notices. As start_local_agent().
LocalAgent fork_guardian(const std::function<int(GuardianEnds&)>& body);

/// Forks the guardian, which forks the others. Call before any thread or event loop exists in this process.
/// Throws std::system_error when the kernel refuses a process or descriptor.
LocalAgent start_local_agent(const agent::AgentSpec& spec, const agent::SignalState& signals);

}  // namespace muster::launcher
