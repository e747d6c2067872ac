// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/core/node_spec.hpp"

#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <string>

namespace muster::launcher {
namespace {

int count_workers(const NodePlan& plan, const agent::NodeHello& hello) {
  if (plan.workers > 0) return plan.workers;
  if (plan.workers_by == "gpu" && hello.gpus == 0)
    throw LaunchError(kExitLauncherFailure,
                      plan.name +
                          " has no GPU, which --nproc-per-node=gpu counts; leave that host out, "
                          "or give a number");
  if (plan.workers_by == "cpu" || hello.gpus == 0) return std::max(hello.cpus, 1);
  return hello.gpus;
}

std::string short_name(const std::string& host) {
  return host.substr(0, host.find('.'));
}

bool has_answered(const agent::NodeHello& hello) {
  return !hello.host.empty() || !hello.addresses.empty();
}

}  // namespace

agent::AgentSpec spec_for(const JobSpec& job, std::size_t index, const std::vector<agent::NodeHello>& hellos,
                          std::uint64_t incarnation) {
  const NodePlan& plan = job.nodes[index];
  const auto count = static_cast<int>(job.nodes.size());
  agent::AgentSpec spec = job.agent;
  spec.host = hellos[index].host.empty() ? plan.name : short_name(hellos[index].host);
  spec.workers = count_workers(plan, hellos[index]);
  if (spec.limits.max_nodes <= 1) spec.limits.min_nodes = spec.limits.max_nodes = count;
  spec.working_directory = job.remote.working_directory;
  spec.environment = job.remote.environment;
  spec.environment.insert(spec.environment.end(), job.agent.environment.begin(), job.agent.environment.end());
  if (!plan.gpus.empty()) spec.environment.emplace_back("CUDA_VISIBLE_DEVICES", joined(plan.gpus, ","));

  agent::NodeSpec& node = spec.node;
  node.name = plan.name;
  node.incarnation = incarnation;
  node.node_rank = static_cast<int>(index);
  node.coordinator = index == 0;
  if (!node.coordinator) {
    node.interface_name.clear();
    node.local_addr.clear();
    return spec;
  }
  auto& form = std::get<agent::StartedNode>(node.form);
  for (std::size_t i = 0; i < job.nodes.size(); ++i) {
    // A host that could not be started is left out: nobody waits for it, and nobody looks its name up.
    if (i != index && !has_answered(hellos[i])) continue;
    form.expected_nodes.push_back(job.nodes[i].name);
    if (i == index) continue;
    const auto& addresses = hellos[i].addresses;
    form.peers.push_back(addresses.empty() ? job.nodes[i].ssh_target : addresses.front());
  }
  return spec;
}

}  // namespace muster::launcher
