// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/gpu/network/small_cnn.hpp"

#include <utility>

namespace muster::nn::gpu {
namespace {

constexpr int kHidden = 128;
constexpr int kWidest = 128;
constexpr int kFeatures = 4096;  // height x width x channels of the last map, as the CPU flattens it

float* partials_of(Ops& ops) {
  return static_cast<float*>(
      ops.allocate(std::size_t{2} * kMaxSumBlocks * kWidest * sizeof(float), "partial sums"));
}

}  // namespace

template <typename T>
SmallCnn<T>::Stage::Stage(Room& room, int in, int real_in, int out, int side)
    : convolution(room, {in, out, side, 3, 1, 1}, real_in),
      pool{out, side, 2, 2, 0},
      positive(room, convolution.map(room.capacity)),
      pooled(allocate<T>(room, room.capacity * side * side / 4 * out, "maps")),
      winners(allocate<std::uint8_t>(room, room.capacity * side * side / 4 * out, "winners of pooling")) {}

template <typename T>
SmallCnn<T>::SmallCnn(ModelSpec spec, std::int64_t capacity, Ops& ops)
    : spec_(std::move(spec)),
      room_{ops, capacity, partials_of(ops)},
      first_(room_, kPack, kColours, 32, kSide),
      second_(room_, 32, 32, 64, kSide / 2),
      hidden_(room_, kFeatures, kHidden),
      products_(allocate<T>(room_, capacity * kHidden, "features")),
      features_(room_, {capacity, kHidden}),
      head_(room_, kHidden, static_cast<int>(spec_.classes)),
      images_(allocate<T>(room_, capacity * kSide * kSide * kPack, "images")) {}

template <typename T>
void SmallCnn<T>::bind(std::span<const ParameterSlot> parameters, std::span<float* const>) {
  slots_.assign(parameters.begin(), parameters.end());
  first_.convolution.weights().bind(slots_.at(0));
  first_.bias = slots_.at(1);
  second_.convolution.weights().bind(slots_.at(2));
  second_.bias = slots_.at(3);
  hidden_.bind(slots_.at(4), slots_.at(5));
  head_.linear().bind(slots_.at(6), slots_.at(7));
}

template <typename T>
void SmallCnn<T>::pack_weights() {
  first_.convolution.weights().pack();
  second_.convolution.weights().pack();
  hidden_.weights().pack();
  head_.linear().weights().pack();
}

template <typename T>
void SmallCnn<T>::run_stage(Stage& stage, const T* input) {
  stage.convolution.forward(input, batch_);
  room_.ops.run(ScaleAddRelu<T>{stage.convolution.map(batch_), stage.convolution.x(), nullptr,
                                stage.bias.value, nullptr, nullptr, nullptr, stage.positive.y,
                                stage.positive.signs});
  room_.ops.run(MaxPool<T>{stage.pool, batch_, stage.positive.y, stage.pooled, stage.winners});
}

template <typename T>
const float* SmallCnn<T>::forward(std::int64_t batch, Mode) {
  batch_ = batch;
  if (batch == 0) return nullptr;
  run_stage(first_, images_);
  run_stage(second_, first_.pooled);
  hidden_.forward(second_.pooled, batch, products_);
  room_.ops.run(ScaleAddRelu<T>{{batch, kHidden},
                                products_,
                                nullptr,
                                hidden_.bias().value,
                                nullptr,
                                nullptr,
                                nullptr,
                                features_.y,
                                features_.signs});
  return head_.forward(features_.y, batch);
}

/// From the gradient in stage.pooled.
template <typename T>
void SmallCnn<T>::reverse_stage(Stage& stage, const T* input, std::size_t weight, const Ready& ready) {
  const MapSize map = stage.convolution.map(batch_);
  room_.ops.run(
      MaxPoolBackward<T>{stage.pool, batch_, stage.pooled, nullptr, stage.winners, stage.positive.y});
  room_.ops.run(GradientSums<T>{map,
                                {stage.positive.y, nullptr, stage.positive.signs},
                                nullptr,
                                nullptr,
                                stage.convolution.x(),
                                room_.partials});
  room_.ops.run(BiasGradient{map, room_.partials, map.channels, stage.bias.gradient});
  ready(weight + 1);
  stage.convolution.weight_gradient(input, batch_);
  ready(weight);
}

template <typename T>
void SmallCnn<T>::backward(const float* logits_gradient, const Ready& ready) {
  if (batch_ == 0) {
    for (std::size_t i = slots_.size(); i-- > 0;)
      room_.ops.clear(slots_[i].gradient, spec_.parameters[i].elements() * sizeof(float));
    for (std::size_t i = slots_.size(); i-- > 0;) ready(i);
    return;
  }
  // The gradient of the features replaces the products that ReLU took.
  head_.backward(logits_gradient, features_.y, products_, batch_);
  ready(7);
  ready(6);
  room_.ops.run(GradientSums<T>{
      {batch_, kHidden}, {products_, nullptr, features_.signs}, nullptr, nullptr, products_, room_.partials});
  hidden_.parameter_gradients(second_.pooled, products_, batch_);
  ready(5);
  ready(4);
  hidden_.input_gradient(products_, batch_, second_.pooled);
  reverse_stage(second_, first_.pooled, 2, ready);
  second_.convolution.input_gradient(first_.pooled, batch_);
  reverse_stage(first_, images_, 0, ready);
}

template class SmallCnn<float>;
template class SmallCnn<Bf16>;

}  // namespace muster::nn::gpu
