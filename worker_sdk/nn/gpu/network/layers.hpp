// SPDX-License-Identifier: Apache-2.0
// The layers of models (nn/layers.hpp) on a device.
#pragma once

#include "worker_sdk/nn/gpu/network/attention.hpp"
#include "worker_sdk/nn/gpu/network/map_rows.hpp"
#include "worker_sdk/nn/gpu/network/norm.hpp"
#include "worker_sdk/nn/gpu/network/pools.hpp"
#include "worker_sdk/nn/gpu/network/products.hpp"
#include "worker_sdk/nn/gpu/network/room.hpp"
#include "worker_sdk/nn/gpu/network/rows.hpp"
#include "worker_sdk/nn/network.hpp"
#include "worker_sdk/nn/row_layers.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::nn::gpu {

/// Weights in the layout of the kernels, beside the canonical ones.
template <typename T>
class Weights {
 public:
  Weights(Room& room, const WeightShape& shape)
      : room_(room), shape_(shape), packed_(allocate<T>(room, shape.padded_elements(), "weights")) {}

  void bind(const ParameterSlot& slot) { slot_ = slot; }

  void pack() { room_.ops.run(PackWeights<T>{shape_, slot_.value, packed_}); }

  const T* packed() const { return packed_; }

  /// Writes the canonical gradient from one in the kernels' layout.
  void take_gradient(const T* gradient) {
    room_.ops.run(UnpackGradient<T>{shape_, gradient, slot_.gradient});
  }

  const WeightShape& shape() const { return shape_; }

 private:
  Room& room_;
  const WeightShape shape_;
  T* const packed_;
  ParameterSlot slot_;
};

/// Images are widened to whole packs of channels.
template <typename T>
class Convolution {
 public:
  Convolution(Room& room, const ConvolutionSize& size)
      : room_(room),
        shape_{size.of_images ? padded(size.in) : whole_packs(size.in, "convolution of width"),
               whole_packs(size.out, "convolution to width"),
               static_cast<int>(size.side),
               static_cast<int>(size.kernel),
               static_cast<int>(size.stride),
               static_cast<int>(size.padding)},
        weights_(room, {static_cast<int>(size.out), static_cast<int>(size.in), shape_.kernel * shape_.kernel,
                        shape_.out, shape_.in}),
        gradient_(allocate<T>(room, weights_.shape().padded_elements(), "gradients of weights")) {}

  void bind(const ParameterSlot& weight) { weights_.bind(weight); }

  void weights_changed() { weights_.pack(); }

  void forward(const T* x, std::int64_t batch, T* y) {
    if (batch > 0) convolve(Direction::forward, batch, x, weights_.packed(), y);
  }

  void backward_weights(const T* x, const T* dy, std::int64_t batch) {
    if (batch == 0) return;
    convolve(Direction::weight_gradient, batch, x, dy, gradient_);
    weights_.take_gradient(gradient_);
  }

  void backward_data(const T* dy, std::int64_t batch, T* dx) {
    if (batch > 0) convolve(Direction::input_gradient, batch, dy, weights_.packed(), dx);
  }

 private:
  void convolve(Direction direction, std::int64_t batch, const T* a, const T* b, T* result) {
    room_.ops.convolve({direction, shape_, batch, element_of<T>(), a, b, result, room_.allows_tf32()});
  }

  Room& room_;
  const ConvolutionShape shape_;
  Weights<T> weights_;
  T* const gradient_;
};

/// The set of layers whose maps are of T: float, Bf16 or F16.
template <typename T>
struct Layers {
  using Options = RoomOptions;
  using Room = gpu::Room;
  using Element = T;
  using Feature = T;
  using Sign = std::uint8_t;
  using Convolution = gpu::Convolution<T>;
  using Norm = gpu::Norm<T>;
  using NormGradient = gpu::NormGradient<T>;
  using MaxPool = gpu::WindowMaximum<T>;
  using AveragePool = gpu::MeanPool<T>;
  using BiasPool = gpu::BiasPool<T>;
  using Hidden = gpu::Hidden<T>;
  using Head = gpu::Head<T>;
  using Linear = gpu::Linear<T>;
  using Relu = RowMap<T, ReluMap>;
  using Gelu = RowMap<T, GeluMap>;
  using LayerNorm = gpu::LayerNorm<T>;
  using Attention = gpu::Attention<T>;
  using Positions = gpu::Positions<T>;
  using Embedding = gpu::Embedding<T>;
  using Dropout = gpu::Dropout<T>;
  using TokenMean = gpu::TokenMean<T>;
  using Sum = gpu::Sum<T>;
  using Flatten = gpu::Flatten<T>;
  using Tokens = gpu::Tokens<T>;
  using Grey = gpu::Grey<T>;
  using MapBias = gpu::MapBias<T>;
};

static_assert(RowLayerSet<Layers<float>> && RowLayerSet<Layers<Bf16>> && RowLayerSet<Layers<F16>>);

}  // namespace muster::nn::gpu
