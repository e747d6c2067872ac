// SPDX-License-Identifier: Apache-2.0
// Linear layers on a device.
#pragma once

#include "worker_sdk/nn/gpu/network/room.hpp"

#include <cstdint>

namespace muster::nn::gpu {

/// y = x * weight^T for rows of any width. Where there are fewer outputs than `width`, y is as wide as that,
/// and what is behind the outputs is zero.
template <typename T>
class Products {
 public:
  Products(Room& room, std::int64_t in, std::int64_t out, std::int64_t width)
      : room_(room), in_(in), out_(out), width_(width) {
    if (width != out) padded_gradient_ = allocate<float>(room, width * in, "a gradient of weights");
    // Floats that need no padding are read where they are: they change when no layer reads them.
    if (sizeof(T) == sizeof(float) && width == out) return;
    packed_ = allocate<T>(room, width * in, "weights");
  }

  void bind(const ParameterSlot& weight) { weight_ = weight; }

  void weights_changed() {
    if (packed_ == nullptr) return;
    const auto number = [](std::int64_t extent) { return static_cast<int>(extent); };
    room_.ops.run(
        PackWeights<T>{{number(out_), number(in_), 1, number(width_), number(in_)}, weight_.value, packed_});
  }

  std::int64_t width() const { return width_; }

  void forward(const T* x, std::int64_t rows, T* y) const {
    if (rows > 0) multiply({rows, width_, in_, {x, in_, 1}, {weights(), 1, in_}, y, width_}, element_of<T>());
  }

  /// Engines on tensor cores take no matrix of, say, 10 rows: those of the padding are computed, too, and
  /// left behind.
  void backward_weights(const T* x, const T* dy, std::int64_t rows) const {
    if (rows == 0) return;
    float* const result = padded_gradient_ != nullptr ? padded_gradient_ : weight_.gradient;
    multiply({width_, in_, rows, {dy, 1, width_}, {x, in_, 1}, result, in_}, Element::f32);
    if (result != weight_.gradient)
      room_.ops.run(AddGradients{{0, out_ * in_}, result, false, weight_.gradient});
  }

  /// Where `dx` is null nobody wants it.
  void backward_data(const T* dy, std::int64_t rows, T* dx) const {
    if (rows > 0 && dx != nullptr)
      multiply({rows, in_, width_, {dy, width_, 1}, {weights(), in_, 1}, dx, in_}, element_of<T>());
  }

 private:
  struct Sizes {
    std::int64_t m, n, k;
    Matrix a, b;
    void* result;
    std::int64_t result_row;
  };

  void multiply(const Sizes& of, Element result) const {
    MultiplyCall call;
    call.m = of.m;
    call.n = of.n;
    call.k = of.k;
    call.a = of.a;
    call.b = of.b;
    call.result = of.result;
    call.result_row = of.result_row;
    call.element = element_of<T>();
    call.result_element = result;
    call.tf32 = room_.allows_tf32();
    room_.ops.multiply(call);
  }

  const void* weights() const {
    if (packed_ != nullptr) return packed_;
    return weight_.value;
  }

  Room& room_;
  const std::int64_t in_;
  const std::int64_t out_;
  const std::int64_t width_;
  T* packed_ = nullptr;
  float* padded_gradient_ = nullptr;  ///< where the width is more than the outputs
  ParameterSlot weight_;
};

/// Sums over the rows of each of `count` columns, for the gradient of a bias.
template <typename T>
void sum_rows(const Room& room, std::int64_t rows, std::int64_t width, std::int64_t count, const T* dy,
              float* sums) {
  room.ops.run(RowSums<T>{
      rows, static_cast<int>(width), static_cast<int>(count), dy, nullptr, {}, room.partials, sums, nullptr});
}

/// y = x * weight^T, and a bias where there is one.
template <typename T>
class Linear {
 public:
  Linear(Room& room, std::int64_t in, std::int64_t out, bool bias, std::int64_t = 1)
      : room_(room), out_(out), has_bias_(bias), products_(room, in, out, out) {}

  /// Without a bias its slot is not looked at.
  void bind(const ParameterSlot& weight, const ParameterSlot& bias) {
    products_.bind(weight);
    bias_ = bias;
  }

  void weights_changed() { products_.weights_changed(); }

  void forward(const T* x, std::int64_t rows, T* y) const {
    if (rows == 0) return;
    products_.forward(x, rows, y);
    if (has_bias_) room_.ops.run(AddRepeated<T>{rows * out_, out_, y, bias_.value, y});
  }

  void backward(const T* x, const T* dy, std::int64_t rows, T* dx) const {
    if (rows == 0) return;
    if (has_bias_) sum_rows(room_, rows, out_, out_, dy, bias_.gradient);
    products_.backward_weights(x, dy, rows);
    products_.backward_data(dy, rows, dx);
  }

 private:
  Room& room_;
  const std::int64_t out_;
  const bool has_bias_;
  Products<T> products_;
  ParameterSlot bias_;
};

/// A linear layer, its bias and ReLU. There is a bit for the sign of each result, so `out` is a multiple of
/// eight as of a map.
template <typename T>
class Hidden {
 public:
  Hidden(Room& room, std::int64_t in, std::int64_t out)
      : room_(room),
        width_(map_channels(out, "linear layer with ReLU of width")),
        products_(room, in, out, out),
        signs_(room, static_cast<std::size_t>(width_ / kPack)) {}

  void bind(const ParameterSlot& weight, const ParameterSlot& bias) {
    products_.bind(weight);
    bias_ = bias;
  }

  void weights_changed() { products_.weights_changed(); }

  void forward(const T* x, std::int64_t batch, T* y) {
    products_.forward(x, batch, y);
    room_.ops.run(ScaleAddRelu<T>{
        {batch, width_}, y, nullptr, bias_.value, nullptr, nullptr, nullptr, y, signs_.data()});
  }

  void backward(const T* x, const T*, T* dy, std::int64_t batch, T* dx) {
    const MapSize map = {batch, width_};
    room_.ops.run(GradientSums<T>{map, {dy, nullptr, signs_.data()}, nullptr, nullptr, dy, room_.partials});
    room_.ops.run(BiasGradient{map, room_.partials, width_, bias_.gradient});
    products_.backward_weights(x, dy, batch);
    products_.backward_data(dy, batch, dx);
  }

 private:
  Room& room_;
  const int width_;
  Products<T> products_;
  const Memory<std::uint8_t> signs_;
  ParameterSlot bias_;
};

/// The last layer: logits, and back from their gradient. Products are padded, so that tensor cores take them.
template <typename T>
class Head {
 public:
  Head(Room& room, std::int64_t features, std::int64_t classes)
      : room_(room),
        classes_(static_cast<int>(classes)),
        width_(padded(classes)),
        linear_(room, features, classes, width_),
        products_(room, static_cast<std::size_t>(width_) * sizeof(T), &MemoryUse::workspace),
        gradient_(room, static_cast<std::size_t>(width_) * sizeof(T), &MemoryUse::workspace) {}

  void bind(const ParameterSlot& weight, const ParameterSlot& bias) {
    linear_.bind(weight);
    bias_ = bias;
  }

  void weights_changed() { linear_.weights_changed(); }

  void forward(const T* features, std::int64_t batch, float* logits) {
    T* const products = products_.data();
    linear_.forward(features, batch, products);
    room_.ops.run(FinishLogits<T>{batch, classes_, width_, products, bias_.value, logits});
  }

  void backward(const T* features, const float* logits_gradient, std::int64_t batch, T* features_gradient) {
    T* const gradient = gradient_.data();
    room_.ops.run(PadGradient<T>{batch, classes_, width_, logits_gradient, gradient});
    sum_rows(room_, batch, width_, classes_, gradient, bias_.gradient);
    linear_.backward_weights(features, gradient, batch);
    linear_.backward_data(gradient, batch, features_gradient);
  }

 private:
  Room& room_;
  const int classes_;
  const int width_;
  Products<T> linear_;
  const Memory<T> products_;
  const Memory<T> gradient_;
  ParameterSlot bias_;
};

}  // namespace muster::nn::gpu
