// SPDX-License-Identifier: Apache-2.0
// Plans which CPUs each worker of a node may use. Pure: the machine goes in as a Topology.
#pragma once

#include <string>
#include <vector>

namespace muster::agent {

/// The CPUs that this process may use, core by core in the machine's order. Numbers are the kernel's.
struct Topology {
  struct Core {
    /// The core's hardware threads.
    std::vector<int> cpus;
    int numa_node = 0;
    int socket = 0;
    /// Cores with the same number share a last-level cache.
    int complex = 0;
  };

  std::vector<Core> cores;
};

struct BindingWish {
  /// --bind-to: "none", "core", "numa" or "socket".
  std::string bind_to = "none";
  /// --numa-binding: "", "node", "socket", "exclusive" or "core-complex".
  std::string numa_binding;
  int workers = 1;
  /// NUMA node of each worker's GPU, by local rank; -1: unknown. Shorter than `workers`: no GPU.
  std::vector<int> gpu_nodes;

  bool any() const { return bind_to != "none" || !numa_binding.empty(); }
};

struct BindingPlan {
  /// CPUs of each local rank, ascending. Empty: nothing is bound.
  std::vector<std::vector<int>> cpus;
  /// Says why the wish cannot be fulfilled, and what to do; empty if it can.
  std::string error;
};

/// Plans the CPUs of each worker. By bind_to: core gives each worker whole cores to itself, as many as all
/// others have: of its GPU's NUMA node, or without GPUs its share of the machine, in order; numa and socket
/// give it all of one: its GPU's, or without GPUs workers are dealt to them in blocks. By numa_binding
/// (torchrun's, needs GPUs): node and socket do the same; exclusive divides the cores of a NUMA node among
/// the workers whose GPUs are there; core-complex gives each of these its own last-level cache.
BindingPlan plan_binding(const Topology& topology, const BindingWish& wish);

}  // namespace muster::agent
