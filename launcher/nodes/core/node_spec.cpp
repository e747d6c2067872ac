// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/core/node_spec.hpp"

#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

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

agent::LinkMessage spec_message(const agent::AgentSpec& spec) {
  std::string body = agent::to_json(spec);
  if (body.size() > agent::kLinkBodyMax)
    throw std::length_error("its part of the job has " + std::to_string(body.size()) + " bytes, and " +
                            std::to_string(agent::kLinkBodyMax) +
                            " are the most; pass on less of the environment (-x) or shorter arguments");
  return {agent::LinkMessage::Kind::spec, 0, std::move(body)};
}

std::size_t needed_nodes(const JobSpec& job) {
  const auto least = static_cast<std::size_t>(std::max(job.agent.limits.min_nodes, 1));
  return job.agent.limits.elastic() ? std::min(least, job.nodes.size()) : job.nodes.size();
}

bool may_restart(const JobSpec& job) {
  return job.agent.limits.max_restarts > 0 ||
         job.agent.limits.restart_rule != rendezvous::RestartRule::torchrun;
}

}  // namespace muster::launcher
