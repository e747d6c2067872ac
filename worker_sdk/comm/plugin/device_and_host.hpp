// SPDX-License-Identifier: Apache-2.0
// Joins a backend for devices and one for the host into one group.
#pragma once

#include "worker_sdk/comm/plugin/plugin_backend.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

/// A group with two kinds of memory. A device backend carries the calls on memory of the device, or with a
/// stream; another backend beside it carries the calls on memory of the host, and those without any memory,
/// and copies nothing to the device. Both have the same ranks, their calls are numbered and compared as those
/// of one group, and when one fails, both do.
class DeviceAndHost final : public Backend {
 public:
  DeviceAndHost(std::unique_ptr<plugin::PluginBackend> device, std::unique_ptr<Backend> host,
                const GroupPlan& plan);

  /// The name of the device's backend.
  std::string_view name() const override { return device_->name(); }

  void run(std::span<const Operation> batch) override;

  bool is_device() const override { return true; }

  bool has(MemoryKind) const override { return true; }

  MemoryKind memory_of(std::span<const Operation> batch) override;

  std::unique_ptr<Completion> last_run() override { return device_->last_run(); }

  void* allocate(const Call& call) override;

  /// The bytes sent by calls on memory of the host; NCCL does not tell its own.
  Wire wire() const override { return host_->wire(); }

  void launch(const std::function<void()>& work) override { device_->launch(work); }

  void abort(ErrorCode code, const std::string& text) noexcept override;

 private:
  std::optional<MemoryKind> memory_of(const Operation& operation);

  int rank_;
  int size_;
  std::unique_ptr<Backend> host_;
  std::unique_ptr<plugin::PluginBackend> device_;  ///< destroyed before host_, which it tells of its failures
};

}  // namespace muster
