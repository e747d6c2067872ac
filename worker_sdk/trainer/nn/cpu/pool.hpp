// SPDX-License-Identifier: Apache-2.0
// Pooling of maps, for every format. Any thread.
#pragma once

#include "worker_sdk/trainer/nn/cpu/map.hpp"

#include <cstdint>

namespace muster::nn::cpu {

/// The shape of max_pool()'s result.
inline MapShape max_pooled(const MapShape& shape) {
  return {shape.channels, (shape.side - 1) / 2 + 1, shape.format};
}

/// Maximum over windows of 3 x 3 at stride 2, padded by 1 (torchvision's stem). `shape` is that of x.
/// `winners` (may be null: evaluation) gets for each element of y where it came from.
void max_pool(const MapShape& shape, const void* x, void* y, std::uint8_t* winners, std::int64_t batch);

/// The gradient of x, from that of y, which is dy + dy2 (where not null).
void max_pool_backward(const MapShape& shape, const void* dy, const void* dy2, const std::uint8_t* winners,
                       void* dx, std::int64_t batch);

/// The reader of a pooled map: the next convolution, or a linear layer that reads nhwc floats.
enum class PooledTo { map, features };

/// y = max(0, bias + maximum over windows of 2 x 2 at stride 2): what a bias and ReLU before the maximum
/// would give, on a quarter of the elements. `shape` is that of x, its side even.
void relu_pool(const MapShape& shape, const void* x, const float* bias, PooledTo to, void* y,
               std::uint8_t* winners, std::int64_t batch);

/// The gradients of x and of the bias (summed over the batch), from that of y.
void relu_pool_backward(const MapShape& shape, const void* dy, PooledTo to, const std::uint8_t* winners,
                        void* dx, float* bias_gradient, std::int64_t batch);

/// Computes the mean of the pixels of each channel: batch x channels floats.
void average_pool(const MapShape& shape, const void* x, float* means, std::int64_t batch);

/// Computes the gradient of x from that of the means.
void average_pool_backward(const MapShape& shape, const float* means_gradient, void* dx, std::int64_t batch);

}  // namespace muster::nn::cpu
