// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/gpu/network/room.hpp"

namespace muster::nn::gpu {

/// Maximum over windows at stride 2: of 3 x 3, padded by 1, as in torchvision's stem, or others.
template <typename T>
class WindowMaximum {
 public:
  WindowMaximum(Room& room, const MapExtent& extent, int kernel = 3, int padding = 1)
      : room_(room),
        shape_{whole_packs(extent.channels, "maximum over windows of width"), static_cast<int>(extent.side),
               kernel, 2, padding},
        winners_(room, MapExtent{extent.channels, shape_.out_side()}.elements()) {}

  void forward(const T* x, std::int64_t batch, Mode, T* y) const {
    if (batch > 0) room_.ops.run(MaxPool<T>{shape_, batch, x, y, winners_.data()});
  }

  void backward(const T* dy, const T* dy2, std::int64_t batch, T* dx) const {
    if (batch > 0) room_.ops.run(MaxPoolBackward<T>{shape_, batch, dy, dy2, winners_.data(), dx});
  }

 private:
  Room& room_;
  const PoolShape shape_;
  const Memory<std::uint8_t> winners_;
};

/// Mean over the pixels of a map.
template <typename T>
class MeanPool {
 public:
  MeanPool(Room& room, const MapExtent& extent)
      : room_(room),
        pixels_(static_cast<int>(extent.side * extent.side)),
        channels_(whole_packs(extent.channels, "mean over a map of width")) {}

  void forward(const T* x, std::int64_t batch, T* means) const {
    room_.ops.run(AveragePool<T>{batch, pixels_, channels_, x, means});
  }

  void backward(const T* means_gradient, std::int64_t batch, T* dx) const {
    room_.ops.run(AveragePoolBackward<T>{batch, pixels_, channels_, means_gradient, dx});
  }

 private:
  Room& room_;
  const int pixels_;
  const int channels_;
};

/// Bias and ReLU, then the maximum over windows of 2 x 2.
template <typename T>
class BiasPool {
 public:
  BiasPool(Room& room, const MapExtent& extent, PooledTo)
      : room_(room),
        extent_{map_channels(extent.channels, "bias with a pool of width"), extent.side},
        pool_(room, extent, 2, 0),
        positive_(room, room.map_bytes(extent)),
        signs_(room, extent.elements() / kPack) {}

  void bind(const ParameterSlot& bias) { bias_ = bias; }

  void forward(const T* x, std::int64_t batch, T* y) const {
    T* const positive = positive_.data();
    room_.ops.run(ScaleAddRelu<T>{size_of(extent_, batch), x, nullptr, bias_.value, nullptr, nullptr, nullptr,
                                  positive, signs_.data()});
    pool_.forward(positive, batch, Mode::train, y);
  }

  void backward(const T* dy, std::int64_t batch, T* dx) const {
    const MapSize map = size_of(extent_, batch);
    T* const positive = positive_.data();
    pool_.backward(dy, nullptr, batch, positive);
    room_.ops.run(
        GradientSums<T>{map, {positive, nullptr, signs_.data()}, nullptr, nullptr, dx, room_.partials});
    room_.ops.run(BiasGradient{map, room_.partials, map.channels, bias_.gradient});
  }

 private:
  Room& room_;
  const MapExtent extent_;
  const WindowMaximum<T> pool_;
  const Memory<T> positive_;
  const Memory<std::uint8_t> signs_;
  ParameterSlot bias_;
};

}  // namespace muster::nn::gpu
