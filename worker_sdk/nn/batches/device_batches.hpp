// SPDX-License-Identifier: Apache-2.0
// Batches in memory of a device.
#pragma once

#include "worker_sdk/nn/batches/samples.hpp"
#include "worker_sdk/nn/description.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"
#include "worker_sdk/nn/network.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace muster::train {

/// Gives the batches of a pass, which all lie in one place. One thread.
class DeviceBatches {
 public:
  virtual ~DeviceBatches() = default;

  /// A pass over training samples, or those that are scored. What was left of the pass of that kind before is
  /// dropped. Throws Error (invalid_argument) for samples or batches that cannot be.
  virtual void begin(bool training, const BatchPlan& batches) = 0;
  /// Moves to the next batch of the pass. Not while calls are recorded.
  virtual void prepare(bool training, std::size_t count) = 0;
  /// Whether a batch that was prepared before, behind which others were, can be given again.
  virtual bool repeats() const = 0;
  /// Puts it onto the stream that the batch is made, in the network's format; may be recorded.
  virtual const void* batch(bool training, std::size_t count) = 0;
  /// Those of the batch; null where the loss has none.
  virtual const std::int32_t* labels() const = 0;
  virtual const float* targets() const = 0;
  /// Bytes of what it holds for good.
  virtual std::size_t bytes() const = 0;
};

/// Batches of at most `capacity` samples that `fill` gives for that network, which reads them in `format`.
/// prepare() fills and copies one; the device waits meanwhile.
std::unique_ptr<DeviceBatches> make_filled_device_batches(const FillBatch& fill,
                                                          const nn::Description& network, std::size_t results,
                                                          const nn::SampleFormat& format,
                                                          std::size_t capacity, nn::gpu::Ops& ops);

}  // namespace muster::train
