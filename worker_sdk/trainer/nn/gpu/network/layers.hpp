// SPDX-License-Identifier: Apache-2.0
// The layers of models (nn/layers.hpp) on a device.
#pragma once

#include "worker_sdk/trainer/nn/gpu/network/norm.hpp"
#include "worker_sdk/trainer/nn/gpu/network/pools.hpp"
#include "worker_sdk/trainer/nn/gpu/network/room.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

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

/// Results have padded(size.out) channels.
template <typename T>
class Convolution {
 public:
  Convolution(Room& room, const ConvolutionSize& size)
      : room_(room),
        shape_{padded(size.in),
               padded(size.out),
               static_cast<int>(size.side),
               static_cast<int>(size.kernel),
               static_cast<int>(size.stride),
               static_cast<int>(size.kernel / 2)},
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
    room_.ops.convolve({direction, shape_, batch, sizeof(T) == 2, a, b, result, room_.allows_tf32()});
  }

  Room& room_;
  const ConvolutionShape shape_;
  Weights<T> weights_;
  T* const gradient_;
};

/// y = x * weight^T, as a convolution of images of one pixel, and the gradient of a bias.
template <typename T>
class Linear {
 public:
  Linear(Room& room, std::int64_t in, std::int64_t out)
      : room_(room), out_(static_cast<int>(out)), products_(room, {in, out, 1, 1, 1}) {}

  void bind(const ParameterSlot& weight, const ParameterSlot& bias) {
    products_.bind(weight);
    bias_ = bias;
  }

  void weights_changed() { products_.weights_changed(); }

  const float* bias() const { return bias_.value; }

  /// Columns of the result: `out` and padding.
  int width() const { return padded(out_); }

  /// batch x width(), without the bias.
  void forward(const T* x, std::int64_t batch, T* y) { products_.forward(x, batch, y); }

  /// `dy` is batch x width(), its padding zero.
  void backward(const T* x, const T* dy, std::int64_t batch, T* dx) {
    const MapSize map = {batch, width()};
    room_.ops.run(GradientSums<T>{map, {dy, nullptr, nullptr}, nullptr, nullptr, nullptr, room_.partials});
    room_.ops.run(BiasGradient{map, room_.partials, out_, bias_.gradient});
    products_.backward_weights(x, dy, batch);
    products_.backward_data(dy, batch, dx);
  }

 private:
  Room& room_;
  const int out_;
  Convolution<T> products_;
  ParameterSlot bias_;
};

/// A linear layer, its bias and ReLU. `out` is a power of two, so that there is no padding.
template <typename T>
class Hidden {
 public:
  Hidden(Room& room, std::int64_t in, std::int64_t out)
      : room_(room),
        linear_(room, in, out),
        signs_(room, static_cast<std::size_t>(linear_.width() / kPack)) {}

  void bind(const ParameterSlot& weight, const ParameterSlot& bias) { linear_.bind(weight, bias); }

  void weights_changed() { linear_.weights_changed(); }

  void forward(const T* x, std::int64_t batch, T* y) {
    linear_.forward(x, batch, y);
    room_.ops.run(ScaleAddRelu<T>{
        {batch, linear_.width()}, y, nullptr, linear_.bias(), nullptr, nullptr, nullptr, y, signs_.data()});
  }

  void backward(const T* x, const T*, T* dy, std::int64_t batch, T* dx) {
    room_.ops.run(GradientSums<T>{
        {batch, linear_.width()}, {dy, nullptr, signs_.data()}, nullptr, nullptr, dy, room_.partials});
    linear_.backward(x, dy, batch, dx);
  }

 private:
  Room& room_;
  Linear<T> linear_;
  const Memory<std::uint8_t> signs_;
};

/// The last layer: logits, and back from their gradient.
template <typename T>
class Head {
 public:
  Head(Room& room, std::int64_t features, std::int64_t classes)
      : room_(room),
        classes_(static_cast<int>(classes)),
        linear_(room, features, classes),
        products_(room, static_cast<std::size_t>(linear_.width()) * sizeof(T), &MemoryUse::workspace),
        gradient_(room, static_cast<std::size_t>(linear_.width()) * sizeof(T), &MemoryUse::workspace) {}

  void bind(const ParameterSlot& weight, const ParameterSlot& bias) { linear_.bind(weight, bias); }

  void weights_changed() { linear_.weights_changed(); }

  void forward(const T* features, std::int64_t batch, float* logits) {
    T* const products = products_.data();
    linear_.forward(features, batch, products);
    room_.ops.run(FinishLogits<T>{batch, classes_, linear_.width(), products, linear_.bias(), logits});
  }

  void backward(const T* features, const float* logits_gradient, std::int64_t batch, T* features_gradient) {
    T* const gradient = gradient_.data();
    room_.ops.run(PadGradient<T>{batch, classes_, linear_.width(), logits_gradient, gradient});
    linear_.backward(features, gradient, batch, features_gradient);
  }

 private:
  Room& room_;
  const int classes_;
  Linear<T> linear_;
  const Memory<T> products_;
  const Memory<T> gradient_;
};

/// The set of layers whose maps are of T: float or Bf16.
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
};

static_assert(LayerSet<Layers<float>> && LayerSet<Layers<Bf16>>);

}  // namespace muster::nn::gpu
