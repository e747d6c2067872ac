// SPDX-License-Identifier: Apache-2.0
// This host's node of a job that somebody started on every host.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/agent_starter_local.hpp"
#include "launcher/core/job_spec.hpp"
#include "rendezvous/tls/secret.hpp"

#include <memory>

namespace muster::launcher {

struct PeerNode {
  agent::AgentSpec spec;
  std::shared_ptr<const rendezvous::Secret> job_secret;
};

/// Gets the key and, where the coordinator runs here, decides where it listens. Throws LaunchError.
PeerNode prepare_peer_node(const JobSpec& job);

/// Forks the guardian, which forks the coordinator's daemon if it runs here, and the agent. As
/// start_local_agent().
LocalAgent start_peer_node(const PeerNode& node, const agent::SignalState& signals);

}  // namespace muster::launcher
