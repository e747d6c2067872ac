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
  for (cudaEvent_t event : events_) device_->give_back(event);
}

void* Batch::scratch(std::size_t bytes, cudaStream_t stream) {
  const Library& api = device_->api();
  void* memory = nullptr;
  check(
      api, api.cudaMallocAsync(&memory, bytes, stream),
      "cudaMallocAsync of " + std::to_string(bytes) + " bytes on device " + std::to_string(device_->index()));
  scratch_.push_back(memory);
  return memory;
}

void Batch::mark(std::span<const cudaStream_t> streams) {
  const std::lock_guard lock(mutex_);
  const Library& api = device_->api();
  for (cudaStream_t stream : streams) {
    cudaEvent_t event = device_->take_event();
    events_.push_back(event);
    check(api, api.cudaEventRecord(event, stream), "recording an event");
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
    const cudaError_t result = device_->api().cudaEventQuery(events_.back());
    if (result == cudaErrorNotReady) return false;
    check(device_->api(), result, describe(first_) + " on device " + std::to_string(device_->index()));
    device_->give_back(events_.back());
    events_.pop_back();
  }
  done_.store(true, std::memory_order_release);
  return true;
}

}  // namespace muster::nccl
