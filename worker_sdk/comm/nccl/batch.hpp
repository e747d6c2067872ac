// SPDX-License-Identifier: Apache-2.0
// A batch of calls that is on its streams, and whether it is done.
#pragma once

#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/nccl/device.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace muster::nccl {

/// A batch is filled by the calling thread; then any thread may use it.
class Batch {
 public:
  Batch(std::shared_ptr<Device> device, const Call& first);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// Memory on the device for work on `stream`, freed when the batch is done.
  void* scratch(std::size_t bytes, CUstream stream);

  /// Tells that the calls are on `streams`, of which none is captured; from now on is_done() answers for
  /// them.
  void mark(std::span<const CUstream> streams);

  /// Whether the device is done with the batch. This is so as well for a batch that was captured in a graph
  /// or had nothing to do.
  bool is_done();

  /// Whether the batch was done while the group had not failed; calls that are done later may have been cut
  /// off.
  bool is_confirmed() const { return confirmed_.load(); }

  void confirm() { confirmed_.store(true); }

  const Call& first() const { return first_; }

  std::chrono::steady_clock::time_point started() const { return started_; }

 private:
  std::shared_ptr<Device> device_;
  Call first_;
  std::chrono::steady_clock::time_point started_;
  std::atomic<bool> done_{true};
  std::atomic<bool> confirmed_{false};
  std::mutex mutex_;  ///< protects the members that follow
  std::vector<CUevent> events_;
  bool marked_ = false;  ///< whether the calls are on their streams, with an event behind them
  std::vector<void*> scratch_;
};

}  // namespace muster::nccl
