// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/plugin/device_and_host.hpp"

#include <utility>
#include <vector>

namespace muster {

DeviceAndHost::DeviceAndHost(std::unique_ptr<plugin::PluginBackend> device, std::unique_ptr<Backend> host,
                             const GroupPlan& plan)
    : rank_(plan.rank), size_(plan.size), host_(std::move(host)), device_(std::move(device)) {
  // A failure of the device's group also ends a call of this rank on memory of the host.
  device_->on_failure([this](const Error& error) { host_->abort(error.code(), error.what()); });
}

/// The kind of memory of a call; empty for a call that moves no data, in which no rank moves any. A send or a
/// receive, which may be one of several in a batch, is judged by its address.
std::optional<MemoryKind> DeviceAndHost::memory_of(const Operation& operation) {
  if (operation.stream != nullptr) return MemoryKind::device;
  const auto kind = [this](const void* memory) {
    return device_->is_host(memory) ? MemoryKind::host : MemoryKind::device;
  };
  if (is_point_to_point(operation.call.collective)) {
    if (operation.call.count == 0) return std::nullopt;
    return kind(operation.call.collective == Collective::send ? operation.in : operation.out);
  }
  std::optional<MemoryKind> in;
  std::optional<MemoryKind> out;
  if (bytes_in(operation, rank_, size_) > 0) in = kind(operation.in);
  if (bytes_out(operation, rank_, size_) > 0)
    out = in && operation.out == operation.in ? in : kind(operation.out);
  if (in && out && *in != *out)
    throw Error(ErrorCode::invalid_argument,
                describe(operation.call) +
                    " has one buffer in memory of the host and one on the device; give both in one of them");
  return in ? in : out;
}

MemoryKind DeviceAndHost::memory_of(std::span<const Operation> batch) {
  std::optional<MemoryKind> all;
  for (const Operation& operation : batch) {
    const auto memory = memory_of(operation);
    if (all && memory && *memory != *all)
      throw Error(ErrorCode::invalid_argument,
                  describe(operation.call) +
                      " is in one batch with a call on the other kind of memory, that of the host or that of "
                      "the device; start them one after the other");
    if (memory) all = memory;
  }
  return all.value_or(MemoryKind::host);
}

/// Runs a batch without its messages of no bytes: their memory cannot be told, so the two ranks might choose
/// different backends.
void DeviceAndHost::run(std::span<const Operation> all) {
  std::vector<Operation> batch(all.begin(), all.end());
  std::erase_if(batch, [](const Operation& each) {
    return is_point_to_point(each.call.collective) && each.call.count == 0;
  });
  if (batch.empty()) return;
  if (batch.front().call.memory == MemoryKind::device) return device_->run(batch);
  // Sends and receives are not noted: they have tags on the host, so their order does not matter, and the
  // host's backend compares them itself.
  for (const Operation& operation : batch)
    if (!is_point_to_point(operation.call.collective)) device_->note(operation.call);
  host_->run(batch);
}

void* DeviceAndHost::allocate(const Call& call) {
  if (call.memory == MemoryKind::device) return device_->allocate(call);
  device_->note(call);
  return host_->allocate(call);
}

void DeviceAndHost::abort(ErrorCode code, const std::string& text) noexcept {
  host_->abort(code, text);
  device_->abort(code, text);
}

}  // namespace muster
