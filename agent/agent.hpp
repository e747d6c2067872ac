// SPDX-License-Identifier: Apache-2.0
// The agent of one node: takes its orders from the launcher, joins rounds, runs workers, reports.
#pragma once

#include "agent/process/signal_state.hpp"

namespace muster::agent {

struct AgentOptions {
  /// Connected to the launcher (launcher_link.hpp); its first message is the AgentSpec. Taken over.
  int link_fd = -1;
  /// Connected to the coordinator (rendezvous/client). Taken over.
  int control_fd = -1;
  /// Readable when the guardian is gone. Taken over.
  int guardian_pidfd = -1;
  /// What workers get.
  SignalState signals;
};

/// Body of the agent process; call it from its only thread, after a fork. Returns when no process of the job
/// is left below it and the report is sent: 0, or 1 if there was no launcher any more to report to.
int run_agent(const AgentOptions& options);

}  // namespace muster::agent
