// SPDX-License-Identifier: Apache-2.0
// Listens to the NVIDIA driver for critical errors of GPUs (Xid).
#pragma once

#include "agent/core/host_causes.hpp"

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace muster::agent {

/// One thread, but for a thread of its own, which may be held up in the driver for as long as it likes.
class GpuEvents {
 public:
  /// Listens from now on, if there are NVML and GPUs, and a thread can be had, which is warned of. `visible`
  /// is the CUDA_VISIBLE_DEVICES that the workers inherit, as visible_gpus() takes it: of other GPUs nothing
  /// is told. Not while another thread is in read_gpu_inventory().
  explicit GpuEvents(std::optional<std::string> visible);
  /// Waits for 0.1 s at most; a thread that is held up longer is left to itself, and ends with the process.
  ~GpuEvents();
  GpuEvents(const GpuEvents&) = delete;
  GpuEvents& operator=(const GpuEvents&) = delete;

  /// The errors so far, of each kind on each GPU the last one; at most kGpuErrorsMax.
  std::vector<GpuError> errors() const;

  static constexpr std::size_t kGpuErrorsMax = 64;

 private:
  struct State;

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace muster::agent
