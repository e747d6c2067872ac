// SPDX-License-Identifier: Apache-2.0
// The layers that the models are made of. Each owns its memory on the device, for batches up to a capacity.
#pragma once

#include "worker_sdk/trainer/nn/gpu/network/device_network.hpp"
#include "worker_sdk/trainer/nn/gpu/ops.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace muster::nn::gpu {

/// The device and the memory that all layers of a model share.
struct Room {
  Ops& ops;
  std::int64_t capacity;
  float* partials;  ///< partial sums per channel, for one layer at a time
  /// Sums over all ranks, in place, for batch norm; empty: over this rank alone.
  DeviceSum sum = {};
};

template <typename T>
T* allocate(Room& room, std::int64_t count, const char* what) {
  return static_cast<T*>(room.ops.allocate(static_cast<std::size_t>(count) * sizeof(T), what));
}

template <typename T>
void convolve(Room& room, Direction direction, const ConvolutionShape& shape, std::int64_t batch, const T* a,
              const T* b, T* result) {
  room.ops.convolve(
      {direction, shape, batch, sizeof(T) == 2, a, b, result, sizeof(T) == 4 && room.ops.allows_tf32()});
}

/// The width that kernels and tensor cores like.
constexpr int padded(std::int64_t channels) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(channels < kPack ? kPack : channels)));
}

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

template <typename T>
class Convolution {
 public:
  Convolution(Room& room, const ConvolutionShape& shape, int real_in)
      : room_(room),
        shape_(shape),
        weights_(room, {shape.out, real_in, shape.kernel * shape.kernel, shape.out, shape.in}),
        gradient_(allocate<T>(room, weights_.shape().padded_elements(), "gradients of weights")),
        x_(allocate<T>(room, room.capacity * shape.out_side() * shape.out_side() * shape.out, "maps")) {}

  Weights<T>& weights() { return weights_; }

  const ConvolutionShape& shape() const { return shape_; }

  /// The result, and later its gradient.
  T* x() { return x_; }

  MapSize map(std::int64_t batch) const {
    return {batch * shape_.out_side() * shape_.out_side(), shape_.out};
  }

  void forward(const T* input, std::int64_t batch) {
    convolve<T>(room_, Direction::forward, shape_, batch, input, weights_.packed(), x_);
  }

  /// Computes the gradient of the weights from the gradient in x().
  void weight_gradient(const T* input, std::int64_t batch) {
    convolve<T>(room_, Direction::weight_gradient, shape_, batch, input, x_, gradient_);
    weights_.take_gradient(gradient_);
  }

  void input_gradient(T* result, std::int64_t batch) {
    convolve<T>(room_, Direction::input_gradient, shape_, batch, x_, weights_.packed(), result);
  }

 private:
  Room& room_;
  const ConvolutionShape shape_;
  Weights<T> weights_;
  T* const gradient_;
  T* const x_;
};

/// The batch norm behind a convolution.
template <typename T>
class Norm {
 public:
  Norm(Room& room, int channels) : room_(room), channels_(channels) {
    auto* p = allocate<float>(room, 7 * channels, "batch norm");
    const auto next = [&] { return p += channels, p - channels; };
    state_ = {next(), next(), next(), next(), next(), next(), next()};
    if (!room.sum) return;
    totals_ = allocate<double>(room, std::int64_t{4} * channels + 1, "batch norm over all ranks");
    gradient_totals_ = totals_ + std::ptrdiff_t{2} * channels + 1;
  }

  void bind(const ParameterSlot& weight, const ParameterSlot& bias, float* mean, float* variance) {
    tensors_ = {weight.value, bias.value, mean, variance};
    weight_gradient_ = weight.gradient;
    bias_gradient_ = bias.gradient;
  }

  const NormState& state() const { return state_; }

  void measure(const T* x, const MapSize& map, Mode mode) {
    if (mode == Mode::evaluate) return room_.ops.run(NormRunning{channels_, tensors_, state_});
    room_.ops.run(Moments<T>{map, x, room_.partials});
    in_turns(NormStatistics<T>{map, x, room_.partials, tensors_, state_, Turn::alone, totals_}, totals_,
             2 * channels_ + 1);
  }

  /// Writes the gradients of its parameters, and the masked gradient to `out` where not null.
  void parameter_gradients(const MapSize& map, const MaskedGradient<T>& gradient, const T* x, T* out) {
    room_.ops.run(GradientSums<T>{map, gradient, x, state_.mean, out, room_.partials});
    in_turns(NormGradients{map, room_.partials, tensors_.weight, state_, weight_gradient_, bias_gradient_,
                           Turn::alone, gradient_totals_, totals_ + std::ptrdiff_t{2} * channels_},
             gradient_totals_, 2 * channels_);
  }

  /// Takes part, on a rank without images, in what measure() exchanges; reverse_nothing() does so for
  /// parameter_gradients().
  void measure_nothing() { measure(nullptr, {0, channels_}, Mode::train); }

  void reverse_nothing() {
    parameter_gradients({0, channels_}, {nullptr, nullptr, nullptr}, nullptr, nullptr);
  }

  void input_gradient(const MapSize& map, const MaskedGradient<T>& gradient, T* x) {
    room_.ops.run(NormBackward<T>{map, gradient, x, state_, x});
  }

 private:
  template <typename Kernel>
  void in_turns(Kernel kernel, double* totals, int count) {
    if (!room_.sum) return room_.ops.run(kernel);
    kernel.turn = Turn::give;
    room_.ops.run(kernel);
    room_.sum(totals, static_cast<std::size_t>(count), room_.ops.stream());
    kernel.turn = Turn::take;
    room_.ops.run(kernel);
  }

  Room& room_;
  const int channels_;
  NormState state_{};
  double* totals_ = nullptr;           ///< forward; the number of pixels stays for backward
  double* gradient_totals_ = nullptr;  ///< backward
  NormTensors tensors_{};
  float* weight_gradient_ = nullptr;
  float* bias_gradient_ = nullptr;
};

/// A result after ReLU, and which of its elements are positive.
template <typename T>
struct Activation {
  Activation(Room& room, const MapSize& largest)
      : y(allocate<T>(room, largest.rows * largest.channels, "maps")),
        signs(allocate<std::uint8_t>(room, largest.packs(), "signs of maps")) {}

  T* y;
  std::uint8_t* signs;
};

/// y = x * weight^T + bias, as a convolution of images of one pixel.
template <typename T>
class Linear {
 public:
  Linear(Room& room, int in, int out)
      : room_(room),
        shape_{in, padded(out), 1, 1, 1, 0},
        weights_(room, {out, in, 1, shape_.out, in}),
        gradient_(allocate<T>(room, weights_.shape().padded_elements(), "gradients of weights")) {}

  void bind(const ParameterSlot& weight, const ParameterSlot& bias) {
    weights_.bind(weight);
    bias_ = bias;
  }

  Weights<T>& weights() { return weights_; }

  const ParameterSlot& bias() const { return bias_; }

  /// Columns of the result: `out` and padding.
  int width() const { return shape_.out; }

  /// batch x width(), without the bias.
  void forward(const T* x, std::int64_t batch, T* products) {
    convolve<T>(room_, Direction::forward, shape_, batch, x, weights_.packed(), products);
  }

  /// `dy` is batch x width(), its padding zero.
  void parameter_gradients(const T* x, const T* dy, std::int64_t batch) {
    const MapSize map = {batch, width()};
    room_.ops.run(GradientSums<T>{map, {dy, nullptr, nullptr}, nullptr, nullptr, nullptr, room_.partials});
    room_.ops.run(BiasGradient{map, room_.partials, weights_.shape().out, bias_.gradient});
    convolve<T>(room_, Direction::weight_gradient, shape_, batch, x, dy, gradient_);
    weights_.take_gradient(gradient_);
  }

  void input_gradient(const T* dy, std::int64_t batch, T* dx) {
    convolve<T>(room_, Direction::input_gradient, shape_, batch, dy, weights_.packed(), dx);
  }

 private:
  Room& room_;
  const ConvolutionShape shape_;
  Weights<T> weights_;
  T* const gradient_;
  ParameterSlot bias_;
};

/// The last layer: logits, and back from their gradient.
template <typename T>
class Head {
 public:
  Head(Room& room, int features, int classes)
      : room_(room),
        classes_(classes),
        linear_(room, features, classes),
        products_(allocate<T>(room, room.capacity * linear_.width(), "logits")),
        logits_(allocate<float>(room, room.capacity * classes, "logits")),
        gradient_(allocate<T>(room, room.capacity * linear_.width(), "logits")) {}

  Linear<T>& linear() { return linear_; }

  const float* forward(const T* features, std::int64_t batch) {
    linear_.forward(features, batch, products_);
    room_.ops.run(
        FinishLogits<T>{batch, classes_, linear_.width(), products_, linear_.bias().value, logits_});
    return logits_;
  }

  void backward(const float* logits_gradient, const T* features, T* features_gradient, std::int64_t batch) {
    room_.ops.run(PadGradient<T>{batch, classes_, linear_.width(), logits_gradient, gradient_});
    linear_.parameter_gradients(features, gradient_, batch);
    linear_.input_gradient(gradient_, batch, features_gradient);
  }

 private:
  Room& room_;
  const int classes_;
  Linear<T> linear_;
  T* const products_;
  float* const logits_;
  T* const gradient_;
};

}  // namespace muster::nn::gpu
