// SPDX-License-Identifier: Apache-2.0
// What the processes of one node are started with.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/link_text.hpp"
#include "agent/process/signal_state.hpp"
#include "rendezvous/tls/peer_identity.hpp"
#include "rendezvous/tls/secret.hpp"

#include <functional>
#include <memory>
#include <string>

namespace muster::agent {

struct NodeProcesses {
  AgentSpec spec;
  /// The version of this muster.
  std::string version;
  /// The link to the launcher: two descriptors, or one for both (a socket). Both stay open here.
  int link_in = -1;
  int link_out = -1;
  /// Refers to a launcher on this host, as in GuardianOptions. Of a distant one the end of link_in says that
  /// it is gone.
  int launcher_pidfd = -1;
  /// The descriptor to which the guardian writes its notices as link messages, for a launcher on this host.
  /// To a distant one they go over the link.
  int notice_fd = -1;
  /// The job's secret, which the coordinator's node has, and every node of the form `peer`.
  std::shared_ptr<const rendezvous::Secret> job_secret;
  /// The key that a distant launcher gave this node; made of job_secret otherwise.
  std::shared_ptr<const rendezvous::Secret> key;
  /// The signals and limits that workers start with.
  SignalState signals;
  /// Called on the coordinator's node, before anything is forked, with the place where it listens. May be
  /// empty.
  std::function<void(const LinkEndpoint&)> listening;
};

/// What the agent of one node is started with.
struct NodeAgentOptions {
  /// What the node's processes know. The agent takes the link over; it has no job secret, and a key unless
  /// control_fd is given.
  NodeProcesses node;
  /// The connection with the store process on this node, taken over; -1 if the coordinator is elsewhere.
  int control_fd = -1;
  /// A descriptor that is readable when the guardian is gone; taken over.
  int guardian_pidfd = -1;
  /// A descriptor on which a byte tells the guardian that the launcher lives though its link is cut. It is
  /// taken over; -1 if there is none.
  int go_on_fd = -1;
};

/// Returns the identity that the key of the spec's node is for.
inline rendezvous::PeerIdentity identity_of(const AgentSpec& spec) {
  return {rendezvous::PeerIdentity::Role::agent, spec.run_id, spec.node.name, spec.node.incarnation};
}

}  // namespace muster::agent
