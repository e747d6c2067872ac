// SPDX-License-Identifier: Apache-2.0
#include "agent/process/worker_binding.hpp"

#include "agent/process/gpu_inventory.hpp"
#include "agent/process/topology.hpp"

#include <cstdlib>
#include <limits>
#include <optional>

namespace muster::agent {
namespace {

/// Returns CUDA_VISIBLE_DEVICES as the workers inherit it.
std::optional<std::string> visible_to_workers(const AgentSpec& spec) {
  for (auto entry = spec.environment.rbegin(); entry != spec.environment.rend(); ++entry)
    if (entry->first == "CUDA_VISIBLE_DEVICES") return entry->second;
  const char* inherited = std::getenv("CUDA_VISIBLE_DEVICES");
  if (inherited == nullptr) return std::nullopt;
  return std::string(inherited);
}

}  // namespace

BindingPlan plan_worker_binding(const AgentSpec& spec) {
  BindingWish wish{spec.bind_to, spec.numa_binding, spec.workers, {}};
  if (!wish.any()) return {};
  const TopologyResult machine = read_topology();
  if (!machine.error.empty()) return {{}, machine.error};
  const GpuInventory inventory = read_gpu_inventory();
  if (inventory.error.empty()) wish.gpu_nodes = numa_nodes_of_gpus(inventory, visible_to_workers(spec));
  return plan_binding(machine.topology, wish);
}

std::vector<unsigned long> affinity_mask(const std::vector<int>& cpus) {
  constexpr std::size_t kBits = std::numeric_limits<unsigned long>::digits;
  std::vector<unsigned long> mask;
  for (const int cpu : cpus) {
    const auto bit = static_cast<std::size_t>(cpu);
    if (mask.size() <= bit / kBits) mask.resize(bit / kBits + 1);
    mask[bit / kBits] |= 1UL << (bit % kBits);
  }
  return mask;
}

}  // namespace muster::agent
