// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/batch.hpp"

#include "muster/error.hpp"

#include <string>
#include <utility>

namespace muster::nccl {

Batch::Batch(std::shared_ptr<Device> device, const Call& first)
    : device_(std::move(device)), first_(first), started_(std::chrono::steady_clock::now()) {}

Batch::~Batch() {
  // The memory is freed in the order of its stream, so a batch need not be done.
  for (const Scratch& piece : scratch_) (void)device_->api().cudaFreeAsync(piece.memory, piece.stream);
  for (cudaEvent_t event : events_) device_->give_back(event);
}

void* Batch::scratch(std::size_t bytes, cudaStream_t stream) {
  const Library& api = device_->api();
  void* memory = nullptr;
  check(
      api, api.cudaMallocAsync(&memory, bytes, stream),
      "cudaMallocAsync of " + std::to_string(bytes) + " bytes on device " + std::to_string(device_->index()));
  scratch_.push_back({memory, stream});
  return memory;
}

void* Batch::stage_in(const void* host, std::size_t bytes) {
  void* const memory = scratch(bytes, device_->stream());
  const Library& api = device_->api();
  check(api, api.cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, device_->stream()),
        "copying " + std::to_string(bytes) + " bytes of host memory to device " +
            std::to_string(device_->index()));
  return memory;
}

void Batch::stage_out(void* staged, void* host, std::size_t bytes) {
  copies_.push_back({staged, host, bytes});
}

void Batch::mark(std::span<const cudaStream_t> streams) {
  const std::lock_guard lock(mutex_);
  const Library& api = device_->api();
  for (cudaStream_t stream : streams) {
    cudaEvent_t event = device_->take_event();
    events_.push_back(event);
    check(api, api.cudaEventRecord(event, stream), "recording an event");
  }
  done_ = events_.empty();
}

bool Batch::is_done() {
  if (done_.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(mutex_);
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

bool Batch::has_copies() {
  const std::lock_guard lock(mutex_);
  return !copies_.empty();
}

void Batch::finish() {
  const std::lock_guard lock(mutex_);
  if (copies_.empty()) return;
  const Library& api = device_->api();
  const DeviceGuard guard(api, device_->index());
  const CaptureGuard capture(api);
  for (const CopyBack& copy : copies_)
    check(api,
          api.cudaMemcpyAsync(copy.host, copy.staged, copy.bytes, cudaMemcpyDeviceToHost, device_->copies()),
          "copying " + std::to_string(copy.bytes) + " bytes to host memory");
  check(api, api.cudaStreamSynchronize(device_->copies()), "copying results to host memory");
  copies_.clear();
}

}  // namespace muster::nccl
