// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu_events.hpp"

#include "agent/process/gpu_inventory.hpp"
#include "agent/process/nvml.hpp"
#include "agent/process/output/helper_thread.hpp"
#include "rendezvous/log/log.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <system_error>
#include <utility>

namespace muster::agent {
namespace {

/// NVML's numbers: nvmlEventTypeXidCriticalError, NVML_ERROR_TIMEOUT.
constexpr unsigned long long kXidCriticalError = 8;
constexpr int kTimeout = 10;
/// How long the thread waits before it looks whether it is to end.
constexpr unsigned kWaitMs = 80;

using EventSet = void*;

/// The layout of NVML's nvmlEventData_t.
struct EventData {
  nvml::Device device;
  unsigned long long type;
  unsigned long long data;  ///< of a critical error its Xid
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct Functions {
  nvml::InitFunction init;
  nvml::InitFunction shutdown;
  nvml::HandleFunction handle;
  int (*create)(EventSet*);
  int (*release)(EventSet);
  int (*listen)(nvml::Device, unsigned long long, EventSet);
  int (*wait)(EventSet, EventData*, unsigned);

  explicit Functions(const nvml::Library& library)
      : init(nvml::symbol<nvml::InitFunction>(library, "nvmlInit_v2")),
        shutdown(nvml::symbol<nvml::InitFunction>(library, "nvmlShutdown")),
        handle(nvml::symbol<nvml::HandleFunction>(library, "nvmlDeviceGetHandleByIndex_v2")),
        create(nvml::symbol<int (*)(EventSet*)>(library, "nvmlEventSetCreate")),
        release(nvml::symbol<int (*)(EventSet)>(library, "nvmlEventSetFree")),
        listen(nvml::symbol<int (*)(nvml::Device, unsigned long long, EventSet)>(library,
                                                                                 "nvmlDeviceRegisterEvents")),
        wait(nvml::symbol<int (*)(EventSet, EventData*, unsigned)>(library, "nvmlEventSetWait_v2")) {}

  bool complete() const {
    return init != nullptr && shutdown != nullptr && handle != nullptr && create != nullptr &&
           release != nullptr && listen != nullptr && wait != nullptr;
  }
};

struct Gpu {
  nvml::Device device = nullptr;
  GpuError error{};
};

}  // namespace

struct GpuEvents::State : HelperState {
  std::vector<GpuError> errors;

  bool goes_on() {
    const std::scoped_lock lock(mutex);
    return !stopping;
  }

  void add(GpuError error) {
    const std::scoped_lock lock(mutex);
    std::erase_if(errors,
                  [&error](const GpuError& one) { return one.gpu == error.gpu && one.xid == error.xid; });
    if (errors.size() >= kGpuErrorsMax) errors.erase(errors.begin());
    errors.push_back(std::move(error));
  }

  /// Hands events on until it is to end, or the driver gives none.
  void wait_for_events(const Functions& functions, EventSet set, const std::vector<Gpu>& gpus) {
    while (goes_on()) {
      EventData event{};
      const int code = functions.wait(set, &event, kWaitMs);
      if (code == kTimeout) continue;
      // A GPU that is lost makes the call fail, and is told as an event before that.
      if (code != nvml::kSuccess) return;
      const auto gpu = std::find_if(gpus.begin(), gpus.end(),
                                    [&event](const Gpu& one) { return one.device == event.device; });
      if (gpu == gpus.end() || event.type != kXidCriticalError) continue;
      GpuError error = gpu->error;
      error.xid = event.data;
      error.at = std::chrono::steady_clock::now();
      add(std::move(error));
    }
  }

  void listen(const Functions& functions, const GpuInventory& inventory, const std::vector<int>& wanted) {
    EventSet set = nullptr;
    if (functions.create(&set) != nvml::kSuccess) return;
    std::vector<Gpu> gpus;
    for (const int index : wanted) {
      Gpu gpu;
      gpu.error.gpu = index;
      if (const auto place = static_cast<std::size_t>(index); place < inventory.pci_addresses.size())
        gpu.error.address = inventory.pci_addresses[place];
      if (index >= 0 && functions.handle(static_cast<unsigned>(index), &gpu.device) == nvml::kSuccess &&
          functions.listen(gpu.device, kXidCriticalError, set) == nvml::kSuccess)
        gpus.push_back(std::move(gpu));
    }
    if (!gpus.empty()) wait_for_events(functions, set, gpus);
    functions.release(set);
  }

  void run(const std::optional<std::string>& visible) {
    const GpuInventory inventory = read_gpu_inventory();
    const std::vector<int> wanted = visible_gpus(inventory, visible);
    const nvml::Library library = nvml::load();
    if (wanted.empty() || !library) return;
    const Functions functions(library);
    if (!functions.complete() || functions.init() != nvml::kSuccess) return;
    listen(functions, inventory, wanted);
    functions.shutdown();
  }
};

GpuEvents::GpuEvents(std::optional<std::string> visible) : state_(std::make_shared<State>()) {
  try {
    thread_ = start_helper_thread("muster:gpus", [state = state_, visible = std::move(visible)] {
      state->run(visible);
      const std::scoped_lock lock(state->mutex);
      state->ended = true;
      state->changed.notify_all();
    });
  } catch (const std::system_error& error) {
    log_warning(
        std::string("errors of GPUs (Xid) are not watched for on this host: no thread can be started (") +
        error.what() + "); raise ulimit -u, or the limit of processes of its container");
  }
}

GpuEvents::~GpuEvents() {
  abandon_helper_thread(thread_, *state_);
}

std::vector<GpuError> GpuEvents::errors() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->errors;
}

}  // namespace muster::agent
