// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/gpu/network/resnet.hpp"

#include <algorithm>
#include <utility>

namespace muster::nn::gpu {
namespace {

/// Channels of the widest layer.
constexpr int kWidest = 512;

float* partials_of(Ops& ops, std::int64_t classes) {
  const std::int64_t channels = std::max(kWidest, padded(classes));
  return static_cast<float*>(
      ops.allocate(static_cast<std::size_t>(2 * kMaxSumBlocks * channels) * sizeof(float), "partial sums"));
}

}  // namespace

template <typename T>
ResNet<T>::ResNet(ResNetPlan plan, std::int64_t capacity, Ops& ops, DeviceSum sum)
    : plan_(std::move(plan)),
      room_{ops, capacity, partials_of(ops, plan_.spec.classes), std::move(sum)},
      stem_(room_, plan_.stem),
      stem_result_(room_, stem_.map(capacity)),
      pool_{static_cast<int>(plan_.stem.out), stem_.convolution.shape().out_side(), 3, 2, 1},
      head_(room_, static_cast<int>(plan_.features), static_cast<int>(plan_.spec.classes)),
      images_(allocate<T>(room_, capacity * kSide * kSide * kPack, "images")),
      features_(allocate<T>(room_, capacity * plan_.features, "features")),
      features_gradient_(allocate<T>(room_, capacity * plan_.features, "features")) {
  if (plan_.pooled) {
    const std::int64_t count = capacity * pool_.out_side() * pool_.out_side() * pool_.channels;
    pooled_ = allocate<T>(room_, count, "maps");
    winners_ = allocate<std::uint8_t>(room_, count, "winners of pooling");
  }
  std::int64_t largest = 0;
  for (const ResNetBlock& block : plan_.blocks) {
    blocks_.push_back(std::make_unique<Block>(room_, block));
    if (block.has_shortcut)
      largest = std::max(largest, block.shortcut.side * block.shortcut.side * block.shortcut.in);
  }
  shortcut_gradient_ = allocate<T>(room_, capacity * largest, "maps");
}

template <typename T>
std::vector<typename ResNet<T>::Unit*> ResNet<T>::units() {
  std::vector<Unit*> all = {&stem_};
  for (const auto& block : blocks_) {
    all.push_back(&block->first);
    all.push_back(&block->second);
    if (block->shortcut) all.push_back(block->shortcut.get());
  }
  return all;
}

template <typename T>
void ResNet<T>::bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) {
  slots_.assign(parameters.begin(), parameters.end());
  for (Unit* unit : units()) {
    const std::size_t first = unit->plan.parameter;
    unit->convolution.weights().bind(slots_.at(first));
    unit->norm.bind(slots_.at(first + 1), slots_.at(first + 2), buffers[unit->plan.buffer],
                    buffers[unit->plan.buffer + 1]);
  }
  head_.linear().bind(slots_.at(plan_.fc_parameter), slots_.at(plan_.fc_parameter + 1));
}

template <typename T>
void ResNet<T>::pack_weights() {
  for (Unit* unit : units()) unit->convolution.weights().pack();
  head_.linear().weights().pack();
}

template <typename T>
T* ResNet<T>::run_unit(Unit& unit, const T* input, Mode mode) {
  unit.convolution.forward(input, batch_);
  unit.norm.measure(unit.convolution.x(), unit.map(batch_), mode);
  return unit.convolution.x();
}

template <typename T>
T* ResNet<T>::run_block(Block& block, const T* input, Mode mode) {
  const T* x = run_unit(block.first, input, mode);
  const NormState& first = block.first.norm.state();
  room_.ops.run(ScaleAddRelu<T>{block.first.map(batch_), x, first.scale, first.shift, nullptr, nullptr,
                                nullptr, block.middle.y, block.middle.signs});
  x = run_unit(block.second, block.middle.y, mode);
  const NormState& second = block.second.norm.state();
  ScaleAddRelu<T> sum = {
      block.second.map(batch_), x, second.scale, second.shift, input, nullptr, nullptr, block.result.y,
      block.result.signs};
  if (block.shortcut) {
    sum.addend = run_unit(*block.shortcut, input, mode);
    sum.addend_scale = block.shortcut->norm.state().scale;
    sum.addend_shift = block.shortcut->norm.state().shift;
  }
  room_.ops.run(sum);
  return block.result.y;
}

template <typename T>
const float* ResNet<T>::forward(std::int64_t batch, Mode mode) {
  batch_ = batch;
  if (batch == 0) {
    if (room_.sum && mode == Mode::train)
      for (Unit* unit : units()) unit->norm.measure_nothing();
    return nullptr;
  }
  const T* x = run_unit(stem_, images_, mode);
  const NormState& state = stem_.norm.state();
  room_.ops.run(ScaleAddRelu<T>{stem_.map(batch), x, state.scale, state.shift, nullptr, nullptr, nullptr,
                                stem_result_.y, stem_result_.signs});
  T* maps = stem_result_.y;
  if (plan_.pooled) {
    room_.ops.run(MaxPool<T>{pool_, batch, maps, pooled_, winners_});
    maps = pooled_;
  }
  for (const auto& block : blocks_) maps = run_block(*block, maps, mode);
  const int side = blocks_.back()->second.convolution.shape().out_side();
  room_.ops.run(AveragePool<T>{batch, side * side, static_cast<int>(plan_.features), maps, features_});
  return head_.forward(features_, batch);
}

template <typename T>
void ResNet<T>::reverse_norm(Unit& unit, const MaskedGradient<T>& gradient, T* out, const Ready& ready) {
  unit.norm.parameter_gradients(unit.map(batch_), gradient, unit.convolution.x(), out);
  ready(unit.plan.parameter + 2);
  ready(unit.plan.parameter + 1);
}

/// After reverse_norm(), from the same gradient. Without `input_gradient` that one is not computed.
template <typename T>
void ResNet<T>::reverse_unit(Unit& unit, const MaskedGradient<T>& gradient, const T* input, T* input_gradient,
                             const Ready& ready) {
  unit.norm.input_gradient(unit.map(batch_), gradient, unit.convolution.x());
  unit.convolution.weight_gradient(input, batch_);
  ready(unit.plan.parameter);
  if (input_gradient != nullptr) unit.convolution.input_gradient(input_gradient, batch_);
}

/// The gradient of the input replaces the input itself: it is read for the last time before.
template <typename T>
typename ResNet<T>::Gradient ResNet<T>::reverse_block(Block& block, T* input, const Gradient& gradient,
                                                      const Ready& ready) {
  // The gradient of the sum, which goes to the second unit and past it, replaces the block's result.
  T* sum = block.result.y;
  reverse_norm(block.second, {gradient.one, gradient.two, block.result.signs}, sum, ready);
  const MaskedGradient<T> through = {sum, nullptr, nullptr};
  const T* past = sum;
  if (block.shortcut) {
    reverse_norm(*block.shortcut, through, nullptr, ready);
    reverse_unit(*block.shortcut, through, input, shortcut_gradient_, ready);
    past = shortcut_gradient_;
  }
  reverse_unit(block.second, through, block.middle.y, block.middle.y, ready);
  const MaskedGradient<T> inner = {block.middle.y, nullptr, block.middle.signs};
  reverse_norm(block.first, inner, nullptr, ready);
  reverse_unit(block.first, inner, input, input, ready);
  return {input, past};
}

template <typename T>
void ResNet<T>::reverse_stem(const Gradient& gradient, const Ready& ready) {
  MaskedGradient<T> masked = {gradient.one, gradient.two, stem_result_.signs};
  if (plan_.pooled) {
    room_.ops.run(MaxPoolBackward<T>{pool_, batch_, gradient.one, gradient.two, winners_, stem_result_.y});
    masked.dy = stem_result_.y;
    masked.dy2 = nullptr;
  }
  reverse_norm(stem_, masked, nullptr, ready);
  reverse_unit(stem_, masked, images_, nullptr, ready);
}

/// On a rank without images: what other ranks wait for, in their order.
template <typename T>
void ResNet<T>::reverse_nothing(const Ready& ready) {
  const auto norm = [&](Unit& unit) {
    if (room_.sum) unit.norm.reverse_nothing();
    ready(unit.plan.parameter + 2);
    ready(unit.plan.parameter + 1);
  };
  ready(plan_.fc_parameter + 1);
  ready(plan_.fc_parameter);
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    Block& block = *blocks_[i];
    norm(block.second);
    if (block.shortcut) {
      norm(*block.shortcut);
      ready(block.shortcut->plan.parameter);
    }
    ready(block.second.plan.parameter);
    norm(block.first);
    ready(block.first.plan.parameter);
  }
  norm(stem_);
  ready(stem_.plan.parameter);
}

template <typename T>
void ResNet<T>::backward(const float* logits_gradient, const Ready& ready) {
  if (batch_ == 0) {
    for (std::size_t i = slots_.size(); i-- > 0;)
      room_.ops.clear(slots_[i].gradient, plan_.spec.parameters[i].elements() * sizeof(float));
    return reverse_nothing(ready);
  }
  head_.backward(logits_gradient, features_, features_gradient_, batch_);
  ready(plan_.fc_parameter + 1);
  ready(plan_.fc_parameter);
  Block& last = *blocks_.back();
  const int side = last.second.convolution.shape().out_side();
  room_.ops.run(AveragePoolBackward<T>{batch_, side * side, static_cast<int>(plan_.features),
                                       features_gradient_, last.result.y});
  Gradient gradient = {last.result.y, nullptr};
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    T* input = i > 0 ? blocks_[i - 1]->result.y : plan_.pooled ? pooled_ : stem_result_.y;
    gradient = reverse_block(*blocks_[i], input, gradient, ready);
  }
  reverse_stem(gradient, ready);
}

template class ResNet<float>;
template class ResNet<Bf16>;

}  // namespace muster::nn::gpu
