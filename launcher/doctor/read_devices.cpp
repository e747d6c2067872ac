// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/read_devices.hpp"

#include "agent/process/gpu_inventory.hpp"
#include "rendezvous/base/posix.hpp"
#include "worker_sdk/comm/plugin/found_libraries.hpp"

#include <filesystem>
#include <system_error>

namespace muster::launcher {
namespace {

namespace fs = std::filesystem;

/// Display controllers of NVIDIA: what other devices its cards have (sound, USB) does not count.
int gpus_on_bus() {
  int count = 0;
  std::error_code error;
  for (fs::directory_iterator entry("/sys/bus/pci/devices", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string device = entry->path();
    if (read_file(device + "/vendor", 6) == "0x10de" && read_file(device + "/class", 4) == "0x03") ++count;
  }
  return count;
}

LibraryFacts facts_of(const plugin::FoundLibrary& found) {
  return {found.version, found.cuda, found.path};
}

bool has_entries(const char* directory) {
  std::error_code error;
  return fs::directory_iterator(directory, error) != fs::directory_iterator();
}

}  // namespace

GpuFacts read_gpus() {
  const agent::GpuInventory inventory = agent::read_gpu_inventory();
  GpuFacts facts;
  facts.on_bus = gpus_on_bus();
  facts.count = static_cast<int>(inventory.uuids.size());
  facts.driver = inventory.driver;
  facts.cuda = inventory.cuda;
  facts.error = inventory.error;
  facts.infiniband = has_entries("/sys/class/infiniband");
  return facts;
}

LibraryFacts read_nccl_library() {
  return facts_of(plugin::find_nccl());
}

LibraryFacts read_cudnn_library() {
  return facts_of(plugin::find_cudnn());
}

}  // namespace muster::launcher
