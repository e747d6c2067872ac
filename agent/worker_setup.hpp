// SPDX-License-Identifier: Apache-2.0
// What is the same for the workers of a node in every round: their environment, their directories, their
// CPUs.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/binding.hpp"
#include "agent/core/worker_environment.hpp"

namespace muster::agent {

struct WorkerSetup {
  /// What workers inherit: our environment, with the mark by which the processes of the job are known again,
  /// and, where a quota leaves a single worker fewer processors than it sees, OMP_NUM_THREADS.
  Environment inherited;
  BindingPlan binding;
};

/// Does what can fail, or take long, before anybody counts on this node. Changes into the workers' directory,
/// and makes the log directory of a node that was started from elsewhere, which becomes spec.output.log_dir.
/// Throws std::exception: std::runtime_error where the workers' directory cannot be used.
WorkerSetup set_up_workers(AgentSpec& spec);

}  // namespace muster::agent
