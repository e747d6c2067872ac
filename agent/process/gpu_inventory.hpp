// SPDX-License-Identifier: Apache-2.0
// How many GPUs the workers will see, without loading CUDA.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

struct GpuInventory {
  /// "GPU-<uuid>" of each GPU of this machine, by NVML index. Empty text where the driver would not say.
  std::vector<std::string> uuids;
  /// Why the list could not be read, with what to do; empty when it could.
  std::string error;
  /// The place of each GPU on the PCI bus, as below /sys/bus/pci/devices: "0000:3b:00.0". Empty text where
  /// not known.
  std::vector<std::string> pci_addresses = {};
  /// The version of the driver, "550.54.15", and of the newest CUDA that it serves, "12.4". Empty text where
  /// it would not say.
  std::string driver = {};
  std::string cuda = {};
};

/// Loads libnvidia-ml.so.1 (found as every shared library is) and asks it; some milliseconds, so only when
/// needed. Not thread-safe against itself.
GpuInventory read_gpu_inventory();

/// Returns the indices of the GPUs that a CUDA program sees, in its order, by the rules of
/// visible_gpu_count(); -1 for a "MIG-" entry. Assumes CUDA_DEVICE_ORDER=PCI_BUS_ID, which
/// worker_environment() sets. Pure.
std::vector<int> visible_gpus(const GpuInventory& inventory, const std::optional<std::string>& visible);

/// Returns the NUMA node of each GPU that a CUDA program sees, in its order; -1 where the system does not
/// say.
std::vector<int> numa_nodes_of_gpus(const GpuInventory& inventory, const std::optional<std::string>& visible);

/// Returns how many GPUs a CUDA program sees. `visible` is CUDA_VISIBLE_DEVICES: nothing means all, empty
/// text none; else indices, or "GPU-" UUIDs of which a unique beginning is enough. The list ends at the first
/// entry that names no GPU (-1 for instance), and an entry named twice makes it empty, as in the CUDA
/// runtime. "MIG-" entries count one each, since NVML does not enumerate them as devices. Pure.
int visible_gpu_count(const GpuInventory& inventory, const std::optional<std::string>& visible);

}  // namespace muster::agent
