// SPDX-License-Identifier: Apache-2.0

#include "launcher/core/launch_error.hpp"
#include "launcher/hosts/host_pattern.hpp"
#include "launcher/job_spec/resolve_steps.hpp"

namespace muster::launcher {
namespace {

constexpr const char* kNodeList = "SLURM_STEP_NODELIST";

/// Checks --nnodes, which may say less than Slurm, but nothing else.
void resolve_node_count(const CliOptions& options, const SlurmPlace& step, JobSpec& spec) {
  spec.agent.min_nodes = spec.agent.max_nodes = step.nodes;
  if (!options.nnodes.given) return;
  const NodeRange wanted = options.nnodes.value;
  if (step.nodes < wanted.min || step.nodes > wanted.max)
    throw UsageError(options.nnodes.given->quoted() + ", but step " + step.job_id + "." + step.step_id +
                     " has " + std::to_string(step.nodes) + " nodes (" + kNodeList + "=" + step.node_list +
                     "); let both say the same, or leave --nnodes out");
  spec.agent.min_nodes = wanted.min;
}

}  // namespace

SlurmPlace slurm_place_of(const System& system) {
  return read_slurm_place([&system](const std::string& name) { return system.variable(name); });
}

int workers_of_step(const SlurmPlace& step) {
  return step.gpus_per_node > 0 ? step.gpus_per_node : 1;
}

void resolve_step(const CliOptions& options, const SlurmPlace& step, JobSpec& spec) {
  check_one_task_per_node(step);
  begin_peer(options, spec);
  resolve_node_count(options, step, spec);
  spec.rdzv_backend = "c10d";
  if (!options.rdzv_id.given) spec.agent.run_id = step_run_id(step);
  const std::vector<std::string> names = expand_node_list({step.node_list, kNodeList});
  spec.peer.endpoint_given = std::string(kNodeList) + "=" + step.node_list;
  agent::NodeSpec& node = spec.agent.node;
  node.coordinator_host = names.front();
  node.coordinator_port = step_port(step.job_id, step.step_id);
  node.coordinator = step.node_index == 0;
  const bool elastic = spec.agent.min_nodes != spec.agent.max_nodes;
  node.node_rank = elastic ? -1 : step.node_index;
  finish_peer(spec);
}

}  // namespace muster::launcher
