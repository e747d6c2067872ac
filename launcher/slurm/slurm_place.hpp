// SPDX-License-Identifier: Apache-2.0
// Reads what Slurm's variables say about the process that we are. Pure: asks nobody, calls no program.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

struct SlurmPlace {
  enum class Kind {
    none,        ///< not in a job of Slurm
    allocation,  ///< a batch script or the shell of salloc: one process that speaks for all nodes of the job
    step,        ///< one of the tasks that an srun started
  };
  Kind kind = Kind::none;
  std::string job_id;
  /// The number of the step, if this is one.
  std::string step_id;
  /// The nodes in their order, as Slurm spells them: "n[00-03,7]" (SLURM_JOB_NODELIST, in a step
  /// SLURM_STEP_NODELIST).
  std::string node_list;
  int nodes = 1;
  /// Tasks on each node, in node order; as many entries as there are nodes.
  std::vector<int> tasks_per_node;
  /// Whether the user asked for tasks (-n, --ntasks-per-node); otherwise Slurm made the number up.
  bool tasks_given = false;
  /// GPUs of each node, where Slurm says so; 0: none or unknown.
  int gpus_per_node = 0;
  /// The places of this node in the step's node list and of this task in the step.
  int node_index = 0;
  int task = 0;

  int tasks() const;
};

using SlurmLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads Slurm's variables. Throws UsageError that names the variable for a value that no Slurm sets.
SlurmPlace read_slurm_place(const SlurmLookup& variable);

/// Expands "2(x3),1" to 2, 2, 2, 1. Throws UsageError naming `source`.
std::vector<int> expand_task_counts(const std::string& text, const std::string& source);

/// Returns the port where the tasks of a step meet unless a flag says otherwise: the same on every node,
/// another one for another step, from 10000 to 29999 (below the ports that kernels hand out).
int step_port(const std::string& job_id, const std::string& step_id);

/// Returns "slurm-JOB-STEP".
std::string step_run_id(const SlurmPlace& place);

/// Throws UsageError if there is more than one task on a node, because we start the workers ourselves.
void check_one_task_per_node(const SlurmPlace& step);

}  // namespace muster::launcher
