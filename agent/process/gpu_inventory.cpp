// SPDX-License-Identifier: Apache-2.0
#include "agent/process/gpu_inventory.hpp"

#include "agent/process/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <set>

namespace muster::agent {
namespace {

using nvml::CountFunction;
using nvml::Device;
using nvml::HandleFunction;
using nvml::InitFunction;
using nvml::symbol;
using UuidFunction = int (*)(Device, char*, unsigned);

/// The layout of NVML's nvmlPciInfo_t.
struct PciInfo {
  std::array<char, 16> legacy_address;
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  std::array<char, 32> address;
};

using PciFunction = int (*)(Device, PciInfo*);
using DriverFunction = int (*)(char*, unsigned);
using CudaFunction = int (*)(int*);

struct Nvml {
  InitFunction init;
  InitFunction shutdown;
  CountFunction count;
  HandleFunction handle;
  UuidFunction uuid;
  /// The function that gives a PCI address; null in old drivers.
  PciFunction pci;
  /// The versions of the driver and of its CUDA; null in old drivers.
  DriverFunction driver;
  CudaFunction cuda;
};

GpuInventory failed(const std::string& what) {
  return {{}, what + "; check that the NVIDIA driver is installed and nvidia-smi works"};
}

/// Returns an address as the kernel writes it: NVML says "00000000:3B:00.0", the kernel "0000:3b:00.0".
std::string kernel_address(std::string address) {
  for (char& c : address) c = static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
  if (address.size() > 12 && address.starts_with("0000")) address.erase(0, address.size() - 12);
  const bool valid =
      address.size() >= 12 && address.find_first_not_of("0123456789abcdef:.") == std::string::npos;
  return valid ? address : "";
}

void add_versions(const Nvml& nvml, GpuInventory& inventory) {
  std::array<char, 80> driver{};  // NVML's own bound
  if (nvml.driver != nullptr && nvml.driver(driver.data(), driver.size()) == nvml::kSuccess) {
    driver.back() = '\0';
    inventory.driver = driver.data();
  }
  int cuda = 0;
  if (nvml.cuda != nullptr && nvml.cuda(&cuda) == nvml::kSuccess)
    inventory.cuda = std::to_string(cuda / 1000) + "." + std::to_string(cuda / 10 % 100);
}

GpuInventory list_devices(const Nvml& nvml) {
  unsigned count = 0;
  if (const int code = nvml.count(&count); code != nvml::kSuccess)
    return failed("counting GPUs failed with NVML error " + std::to_string(code));
  GpuInventory inventory;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    std::array<char, 96> uuid{};  // NVML's own bound
    if (nvml.handle(i, &device) != nvml::kSuccess ||
        nvml.uuid(device, uuid.data(), uuid.size()) != nvml::kSuccess)
      uuid[0] = '\0';
    uuid.back() = '\0';
    inventory.uuids.emplace_back(uuid.data());
    PciInfo info{};
    const bool known = device != nullptr && nvml.pci != nullptr && nvml.pci(device, &info) == nvml::kSuccess;
    info.address.back() = '\0';
    inventory.pci_addresses.push_back(known ? kernel_address(info.address.data()) : "");
  }
  return inventory;
}

/// Returns a leading whole number as strtoul takes it ("1gpu" is 1); -1 if there is none or it is too large.
int leading_number(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return -1;
  text.remove_prefix(first);
  if (text.starts_with('+')) text.remove_prefix(1);
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : -1;
}

/// Returns the index of the one UUID that begins with `prefix`; -1 if none or several do.
int index_of(const GpuInventory& inventory, std::string_view prefix) {
  int found = -1;
  for (std::size_t i = 0; i < inventory.uuids.size(); ++i) {
    if (!inventory.uuids[i].starts_with(prefix)) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

std::vector<std::string_view> entries(std::string_view list) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = list.find(',');
    parts.push_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

int mig_count(std::string_view list) {
  std::set<std::string_view> seen;
  for (const std::string_view entry : entries(list)) {
    if (!entry.starts_with("MIG-")) break;
    if (!seen.insert(entry).second) return 0;
  }
  return static_cast<int>(seen.size());
}

}  // namespace

GpuInventory read_gpu_inventory() {
  const nvml::Library library = nvml::load();
  if (!library) {
    const char* reason = dlerror();
    return failed(std::string("NVML cannot be loaded (") + (reason != nullptr ? reason : nvml::kLibrary) +
                  ")");
  }
  const Nvml nvml{symbol<InitFunction>(library, "nvmlInit_v2"),
                  symbol<InitFunction>(library, "nvmlShutdown"),
                  symbol<CountFunction>(library, "nvmlDeviceGetCount_v2"),
                  symbol<HandleFunction>(library, "nvmlDeviceGetHandleByIndex_v2"),
                  symbol<UuidFunction>(library, "nvmlDeviceGetUUID"),
                  symbol<PciFunction>(library, "nvmlDeviceGetPciInfo_v3"),
                  symbol<DriverFunction>(library, "nvmlSystemGetDriverVersion"),
                  symbol<CudaFunction>(library, "nvmlSystemGetCudaDriverVersion_v2")};
  if (!nvml.init || !nvml.shutdown || !nvml.count || !nvml.handle || !nvml.uuid)
    return failed(std::string(nvml::kLibrary) + " lacks a function of NVML");
  if (const int code = nvml.init(); code != nvml::kSuccess)
    return failed("starting NVML failed with error " + std::to_string(code));
  GpuInventory inventory = list_devices(nvml);
  add_versions(nvml, inventory);
  nvml.shutdown();
  return inventory;
}

std::vector<int> visible_gpus(const GpuInventory& inventory, const std::optional<std::string>& visible) {
  const int all = static_cast<int>(inventory.uuids.size());
  std::vector<int> gpus;
  if (!visible) {
    for (int i = 0; i < all; ++i) gpus.push_back(i);
    return gpus;
  }
  if (visible->starts_with("MIG-"))
    return std::vector<int>(static_cast<std::size_t>(mig_count(*visible)), -1);
  const bool by_uuid = visible->starts_with("GPU-");
  for (const std::string_view entry : entries(*visible)) {
    const bool uuid = entry.starts_with("GPU-");
    if (uuid != by_uuid) break;
    const int index = uuid ? index_of(inventory, entry) : leading_number(entry);
    if (index < 0 || index >= all) break;
    if (std::find(gpus.begin(), gpus.end(), index) != gpus.end()) return {};
    gpus.push_back(index);
  }
  return gpus;
}

int visible_gpu_count(const GpuInventory& inventory, const std::optional<std::string>& visible) {
  return static_cast<int>(visible_gpus(inventory, visible).size());
}

std::vector<int> numa_nodes_of_gpus(const GpuInventory& inventory,
                                    const std::optional<std::string>& visible) {
  std::vector<int> nodes;
  for (const int gpu : visible_gpus(inventory, visible)) {
    int node = -1;
    const auto index = static_cast<std::size_t>(gpu);
    if (gpu >= 0 && index < inventory.pci_addresses.size() && !inventory.pci_addresses[index].empty()) {
      std::ifstream file("/sys/bus/pci/devices/" + inventory.pci_addresses[index] + "/numa_node");
      if (!(file >> node)) node = -1;
    }
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace muster::agent
