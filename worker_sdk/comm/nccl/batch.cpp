// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/batch.hpp"

#include "muster/error.hpp"

#include <string>
#include <utility>

namespace muster::nccl {

Batch::Batch(std::shared_ptr<Device> device, const Call& first)
    : device_(std::move(device)), first_(first), started_(std::chrono::steady_clock::now()) {}

Batch::~Batch() {
  // The stream of the calls may be gone. Memory of calls that were cut off, and so never seen to be done, is
  // freed with the device.
  for (void* memory : scratch_) {
    if (marked_ && events_.empty())
      device_->free(memory);
    else
      device_->free_at_end(memory);
  }
  for (CUevent event : events_) device_->give_back(event);
}

void* Batch::scratch(std::size_t bytes, CUstream stream) {
  const Library& api = device_->api();
  CUdeviceptr memory = 0;
  check(
      api, api.cuMemAllocAsync(&memory, bytes, stream),
      "cuMemAllocAsync of " + std::to_string(bytes) + " bytes on device " + std::to_string(device_->index()));
  scratch_.push_back(plugin::address_of(memory));
  return scratch_.back();
}

void Batch::mark(std::span<const CUstream> streams) {
  const std::lock_guard lock(mutex_);
  const Library& api = device_->api();
  for (CUstream stream : streams) {
    CUevent event = device_->take_event();
    events_.push_back(event);
    check(api, api.cuEventRecord(event, stream), "recording an event");
  }
  marked_ = true;
  done_ = events_.empty();
}

bool Batch::is_done() {
  if (done_.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(mutex_);
  const DeviceGuard on_device = device_->make_current();
  const CaptureGuard guard(device_->api());
  while (!events_.empty()) {
    const CUresult result = device_->api().cuEventQuery(events_.back());
    if (result == CUDA_ERROR_NOT_READY) return false;
    check(device_->api(), result, describe(first_) + " on device " + std::to_string(device_->index()));
    device_->give_back(events_.back());
    events_.pop_back();
  }
  done_.store(true, std::memory_order_release);
  return true;
}

}  // namespace muster::nccl
