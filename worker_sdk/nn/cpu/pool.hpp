// SPDX-License-Identifier: Apache-2.0
// Pooling of maps, for every format. One thread.
#pragma once

#include "worker_sdk/nn/cpu/room.hpp"

#include <cstdint>

namespace muster::nn::cpu {

/// Maximum over windows of 3 x 3 at stride 2, padded by 1 (torchvision's stem).
class MaxPool {
 public:
  /// `extent` is that of x.
  MaxPool(Room& room, const MapExtent& extent);

  const MapShape& result() const { return result_; }

  void forward(const void* x, std::int64_t batch, Mode mode, void* y) const;
  /// The gradient of x, from that of y, which is dy + dy2 (where not null).
  void backward(const void* dy, const void* dy2, std::int64_t batch, void* dx) const;

 private:
  const MapShape shape_;
  const MapShape result_;
  const Memory<std::uint8_t> winners_;  ///< for each element of y, where it came from
};

/// y = max(0, bias + maximum over windows of 2 x 2 at stride 2): what a bias and ReLU before the maximum
/// would give, on a quarter of the elements. Features are nhwc floats.
class BiasPool {
 public:
  /// `extent` is that of x, its side even.
  BiasPool(Room& room, const MapExtent& extent, PooledTo to);

  const MapShape& result() const { return result_; }

  void bind(const ParameterSlot& bias) { bias_ = bias; }

  void forward(const void* x, std::int64_t batch, void* y) const;
  /// The gradients of x and of the bias (summed over the batch), from that of y.
  void backward(const void* dy, std::int64_t batch, void* dx) const;

 private:
  const MapShape shape_;
  const PooledTo to_;
  const MapShape result_;
  const Memory<std::uint8_t> winners_;
  ParameterSlot bias_;
};

/// The mean of the pixels of each channel: batch x channels floats.
class AveragePool {
 public:
  AveragePool(const Room& room, const MapExtent& extent) : shape_(room.shape(extent)) {}

  void forward(const void* x, std::int64_t batch, float* means) const;
  /// Computes the gradient of x from that of the means.
  void backward(const float* means_gradient, std::int64_t batch, void* dx) const;

 private:
  const MapShape shape_;
};

}  // namespace muster::nn::cpu
