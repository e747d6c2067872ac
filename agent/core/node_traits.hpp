// SPDX-License-Identifier: Apache-2.0
// What an agent does otherwise by the form of its node. Each difference has a name of its own and is decided
// here, so that the rest of the agent asks for what it needs and not for the form. Pure.
#pragma once

#include "agent/core/agent_spec.hpp"

#include <string>

namespace muster::agent {

struct NodeTraits {
  explicit NodeTraits(const AgentSpec& spec);

  /// Whether the coordinator serves other hosts: its connections need a key, nodes have addresses, and
  /// silence counts as the end. Otherwise guardian, store process and agent are all there is.
  bool networked = false;
  /// Whether the launcher may be on another host. What the workers print, log files and our own log go over
  /// the link then, and the link may move to a way through the coordinator. Otherwise the workers have the
  /// launcher's own streams.
  bool distant_launcher = false;
  /// Whether this node tells people what the job waits for and why it begins anew: it does unless another
  /// node of the same launcher does.
  bool speaks_for_job = true;
  /// What texts call the node. Peers have names that are made of the host's, for the sake of machines.
  std::string name;
  /// " of <name>" and " on <host>", which texts need only where there are other nodes; else empty.
  std::string of_node;
  std::string on_host;
};

}  // namespace muster::agent
