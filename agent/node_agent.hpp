// SPDX-License-Identifier: Apache-2.0
// The agent of one node: takes its orders from the launcher, joins rounds, runs workers, reports.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/process/signal_state.hpp"
#include "rendezvous/tls/secret.hpp"

#include <memory>
#include <string>

namespace muster::agent {

struct NodeAgentOptions {
  AgentSpec spec;
  /// The version of this muster, for the coordinator.
  std::string version;
  /// The link to the launcher: two descriptors, or one for both (a socket). Taken over.
  int link_in = -1;
  int link_out = -1;
  /// Connected to the daemon on this node; -1: the coordinator is elsewhere. Taken over.
  int control_fd = -1;
  /// Readable when the guardian is gone. Taken over.
  int guardian_pidfd = -1;
  /// A byte here tells the guardian that the launcher lives though its link is cut. Taken over; -1: none.
  int go_on_fd = -1;
  /// This node's own key, unless control_fd is given.
  std::shared_ptr<const rendezvous::Secret> key;
  /// The signals and limits that workers start with.
  SignalState signals;
};

/// Body of the agent process; call it from its only thread, after a fork. Returns when no process of the job
/// is left below it and the report has reached the launcher: 0, or 1 if there was no launcher any more.
int run_node_agent(const NodeAgentOptions& options);

}  // namespace muster::agent
