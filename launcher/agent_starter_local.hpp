// SPDX-License-Identifier: Apache-2.0
// Starts guardian, daemon and agent on this host: by fork alone, which is the fastest start there is.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/process/signal_state.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/tls/secret.hpp"

#include <sys/types.h>

#include <memory>

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

/// This host's node of a job: the only one, or one of those that somebody started on every host.
struct LocalNode {
  agent::AgentSpec spec;
  /// Form `peer`: the key of the job.
  std::shared_ptr<const rendezvous::Secret> job_secret{};
};

/// Forks the guardian, which forks the others. Call before any thread or event loop exists in this process.
/// Throws std::system_error when the kernel refuses a process or descriptor.
LocalAgent start_local_agent(const LocalNode& node, const agent::SignalState& signals);

}  // namespace muster::launcher
