// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/listed_hosts.hpp"

#include "launcher/hosts/host_list.hpp"
#include "launcher/job_spec/real_system.hpp"

#include <cstddef>
#include <utility>

namespace muster::launcher {

std::vector<NodePlan> listed_hosts(const std::string& list) {
  const std::vector<Host> hosts = parse_host_list({list, "--host"});
  const std::vector<std::string> names = node_names(hosts);
  const RealSystem system;
  std::vector<NodePlan> nodes;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    NodePlan node;
    node.name = names[i];
    node.user = hosts[i].user;
    node.ssh_target = hosts[i].name;
    node.ssh_port = hosts[i].port;
    node.local = system.is_this_machine(node.ssh_target);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace muster::launcher
