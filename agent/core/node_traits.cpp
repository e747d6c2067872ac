// SPDX-License-Identifier: Apache-2.0
#include "agent/core/node_traits.hpp"

#include <variant>

namespace muster::agent {

NodeTraits::NodeTraits(const AgentSpec& spec) : name(spec.host) {
  networked = !std::holds_alternative<AloneNode>(spec.node.form);
  distant_launcher = std::holds_alternative<StartedNode>(spec.node.form);
  if (distant_launcher) {
    speaks_for_job = spec.node.coordinator;
    name = spec.node.name;
  }
  if (networked) {
    of_node = " of " + name;
    on_host = " on " + spec.host;
  }
}

}  // namespace muster::agent
