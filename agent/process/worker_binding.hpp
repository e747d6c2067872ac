// SPDX-License-Identifier: Apache-2.0
// Plans which CPUs each worker may use, from what the machine is.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/binding.hpp"

#include <string>
#include <vector>

namespace muster::agent {

/// Returns the CPUs of each worker by --bind-to and --numa-binding, from what this machine is; an empty plan,
/// and no library loaded, if neither was asked for. GPUs are those that the workers will see.
BindingPlan plan_worker_binding(const AgentSpec& spec);

/// Returns `cpus` as sched_setaffinity() takes them, so that a forked child needs no memory: pass size() *
/// sizeof(unsigned long) and data().
std::vector<unsigned long> affinity_mask(const std::vector<int>& cpus);

}  // namespace muster::agent
