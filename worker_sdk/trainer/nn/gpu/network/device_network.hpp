// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/gpu/ops.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace muster::nn::gpu {

/// Sums `count` doubles on the device over all ranks, in place, on `stream` (a cudaStream_t); may be recorded
/// in a graph. All ranks call it equally often.
using DeviceSum = std::function<void(double* data, std::size_t count, void* stream)>;

/// A model on a device. All pointers are the device's; nothing waits for the device. One thread.
class DeviceNetwork {
 public:
  virtual ~DeviceNetwork() = default;

  virtual const ModelSpec& spec() const = 0;

  /// Sets the places of values, gradients and buffers, each in its canonical order.
  virtual void bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) = 0;

  /// The place for the images of a batch: images x 32 x 32 x 8 of the network's type.
  virtual void* images() = 0;

  /// Copies the parameters' values into the layout of the kernels: before the first forward() after they
  /// changed.
  virtual void pack_weights() = 0;

  /// Logits, batch x classes, valid until the next call. As Network::forward().
  virtual const float* forward(std::int64_t batch, Mode mode) = 0;

  /// Goes back as Network::backward() does. `ready(i)` is called when the calls that write gradient i are on
  /// the stream.
  virtual void backward(const float* logits_gradient, const std::function<void(std::size_t)>& ready) = 0;
};

/// Makes a network for batches of at most `capacity` images. `ops` outlives it. `sum` is for batch norm over
/// all ranks and may be empty. Throws Error (invalid_argument) for an unknown model, (unsupported) for more
/// than 2048 classes.
std::unique_ptr<DeviceNetwork> make_device_network(std::string_view model, Precision precision,
                                                   std::int64_t classes, std::int64_t capacity, Ops& ops,
                                                   DeviceSum sum = {});

}  // namespace muster::nn::gpu
