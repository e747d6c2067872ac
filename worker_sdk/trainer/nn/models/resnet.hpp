// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/models/model.hpp"
#include "worker_sdk/trainer/nn/resnet_spec.hpp"

#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace muster::nn {

/// A residual network. backward() keeps no maps of its own: the gradient of a map is written where the map
/// was, once nobody reads it any more.
template <LayerSet Layers>
class ResNet final : public Model<Layers> {
 public:
  ResNet(ResNetPlan plan, const typename Layers::Options& options)
      : Base(plan.spec, options),
        plan_(std::move(plan)),
        stem_(room_, plan_.stem),
        stem_result_(room_, plan_.stem.result()),
        average_(room_, plan_.blocks.back().second.result()),
        features_(room_, static_cast<std::size_t>(plan_.features) * sizeof(Feature)),
        head_(room_, plan_.features, spec_.classes),
        logits_(room_, static_cast<std::size_t>(spec_.classes) * sizeof(float)),
        shortcut_gradient_(room_, room_.map_bytes(largest_shortcut_input(plan_)), &MemoryUse::workspace) {
    if (plan_.pooled) pool_.emplace(room_, plan_.stem.result());
    for (const ResNetBlock& block : plan_.blocks) blocks_.emplace_back(room_, block);
  }

  void bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) override {
    this->keep(parameters, buffers);
    each_unit(*this, [&](Unit& unit) {
      const std::size_t p = unit.plan.parameter;
      const std::size_t b = unit.plan.buffer;
      unit.convolution.bind(slots_[p]);
      unit.norm.bind(slots_[p + 1], slots_[p + 2], buffers[b], buffers[b + 1]);
    });
    head_.bind(slots_[plan_.fc_parameter], slots_[plan_.fc_parameter + 1]);
  }

  void parameters_changed() override {
    each_unit(*this, [](Unit& unit) { unit.convolution.weights_changed(); });
    head_.weights_changed();
  }

  const float* forward(const void* images, std::int64_t batch, Mode mode) override {
    this->begin(images, batch);
    run_unit(stem_, images_, mode);
    apply(stem_, nullptr, nullptr, stem_result_, mode);
    const Element* maps = stem_result_.y.data();
    if (pool_) {
      pool_->layer.forward(maps, batch, mode, pool_->y.data());
      maps = pool_->y.data();
    }
    for (Block& block : blocks_) maps = run_block(block, maps, mode);
    if (batch == 0) return nullptr;
    average_.forward(maps, batch, features_.data());
    head_.forward(features_.data(), batch, logits_.data());
    return logits_.data();
  }

  /// Without images the layers are gone through nevertheless: other ranks wait for what their norms exchange.
  void backward(const float* logits_gradient, const Ready& ready) override {
    Element* const last = blocks_.back().result.y.data();
    if (batch_ > 0) {
      head_.backward(features_.data(), logits_gradient, batch_, features_.data());
      average_.backward(features_.data(), batch_, last);
    } else {
      this->clear_gradients();
    }
    ready(plan_.fc_parameter + 1);
    ready(plan_.fc_parameter);
    Gradient gradient = {last, nullptr};
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      const Memory<Element>& input = i > 0 ? blocks_[i - 1].result.y : pool_ ? pool_->y : stem_result_.y;
      gradient = reverse_block(blocks_[i], input.data(), gradient, ready);
    }
    reverse_stem(gradient, ready);
  }

  std::string first_not_finite() const override {
    std::string name;
    each_unit(*this, [&](const Unit& unit) {
      if (name.empty() && !this->finite(unit.x.data(), unit.plan.result().elements(), room_.element_bytes()))
        name = this->layer_of(unit.plan.parameter);
    });
    if (!name.empty()) return name;
    const auto classes = static_cast<std::size_t>(spec_.classes);
    return this->finite(logits_.data(), classes, sizeof(float)) ? "" : this->layer_of(plan_.fc_parameter);
  }

  double flops_per_image() const override {
    // Forward, gradient of the weights, gradient of the input; the images want none.
    double sum = -stem_.plan.operations();
    each_unit(*this, [&](const Unit& unit) { sum += 3 * unit.plan.operations(); });
    return sum + 6 * static_cast<double>(plan_.features * spec_.classes);
  }

 private:
  using Base = Model<Layers>;
  using Element = typename Layers::Element;
  using Feature = typename Layers::Feature;
  using NormGradient = typename Layers::NormGradient;
  using Room = typename Layers::Room;
  using Base::batch_;
  using Base::images_;
  using Base::room_;
  using Base::slots_;
  using Base::spec_;

  /// A convolution, its result x, and the batch norm that reads it.
  struct Unit {
    Unit(Room& room, const ResNetUnit& unit)
        : plan(unit),
          convolution(room, unit),
          norm(room, unit.result()),
          x(room, room.map_bytes(unit.result())) {}

    const ResNetUnit plan;
    typename Layers::Convolution convolution;
    typename Layers::Norm norm;
    const Memory<Element> x;
  };

  struct Block {
    Block(Room& room, const ResNetBlock& block)
        : first(room, block.first),
          second(room, block.second),
          middle(room, block.first.result()),
          result(room, block.second.result()) {
      if (block.has_shortcut) shortcut.emplace(room, block.shortcut);
    }

    Unit first;
    Unit second;
    std::optional<Unit> shortcut;
    const Activation<Layers> middle;
    const Activation<Layers> result;
  };

  /// The maximum behind the stem.
  struct Pool {
    Pool(Room& room, const MapExtent& extent)
        : layer(room, extent), y(room, room.map_bytes({extent.channels, (extent.side - 1) / 2 + 1})) {}

    typename Layers::MaxPool layer;
    const Memory<Element> y;
  };

  /// The two parts of the gradient of a block's input, which backward() still has to add up.
  struct Gradient {
    const Element* one = nullptr;
    const Element* two = nullptr;
  };

  /// Calls visit(unit) for all units of `self`, a ResNet, in the order of spec().
  template <typename Self, typename Visit>
  static void each_unit(Self& self, const Visit& visit) {
    visit(self.stem_);
    for (auto& block : self.blocks_) {
      visit(block.first);
      visit(block.second);
      if (block.shortcut) visit(*block.shortcut);
    }
  }

  void run_unit(Unit& unit, const Element* input, Mode mode) {
    unit.convolution.forward(input, batch_, unit.x.data());
    unit.norm.measure(unit.x.data(), batch_, mode);
  }

  /// relu(norm(x) + addend), where the addend is passed through `addend_norm` first.
  void apply(const Unit& unit, const Element* addend, const typename Layers::Norm* addend_norm,
             const Activation<Layers>& to, Mode mode) const {
    unit.norm.apply(unit.x.data(), addend, addend_norm, to.y.data(),
                    mode == Mode::train ? to.signs.data() : nullptr, batch_);
  }

  const Element* run_block(Block& block, const Element* input, Mode mode) {
    run_unit(block.first, input, mode);
    apply(block.first, nullptr, nullptr, block.middle, mode);
    run_unit(block.second, block.middle.y.data(), mode);
    if (block.shortcut) {
      run_unit(*block.shortcut, input, mode);
      apply(block.second, block.shortcut->x.data(), &block.shortcut->norm, block.result, mode);
    } else {
      apply(block.second, input, nullptr, block.result, mode);
    }
    return block.result.y.data();
  }

  void reverse_norm(Unit& unit, const NormGradient& gradient, Element* out, const Ready& ready) {
    unit.norm.backward_sums(gradient, out, batch_);
    ready(unit.plan.parameter + 2);
    ready(unit.plan.parameter + 1);
  }

  /// After reverse_norm(), from the same gradient. Without `input_gradient` that one is not computed.
  void reverse_unit(Unit& unit, const NormGradient& gradient, const Element* input, Element* input_gradient,
                    const Ready& ready) {
    unit.norm.backward(gradient, unit.x.data(), batch_);
    unit.convolution.backward_weights(input, unit.x.data(), batch_);
    if (input_gradient != nullptr) unit.convolution.backward_data(unit.x.data(), batch_, input_gradient);
    ready(unit.plan.parameter);
  }

  /// The gradient of the input replaces the input itself: it is read for the last time before.
  Gradient reverse_block(Block& block, Element* input, const Gradient& gradient, const Ready& ready) {
    Unit& first = block.first;
    Unit& second = block.second;
    // The gradient of the sum, which goes to the second unit and past it, replaces the block's result.
    Element* const sum = block.result.y.data();
    reverse_norm(second, {second.x.data(), gradient.one, gradient.two, block.result.signs.data()}, sum,
                 ready);
    const Element* past = sum;
    if (block.shortcut) {
      const NormGradient through = {block.shortcut->x.data(), sum, nullptr, nullptr};
      reverse_norm(*block.shortcut, through, nullptr, ready);
      reverse_unit(*block.shortcut, through, input, shortcut_gradient_.data(), ready);
      past = shortcut_gradient_.data();
    }
    Element* const middle = block.middle.y.data();
    reverse_unit(second, {second.x.data(), sum, nullptr, nullptr}, middle, middle, ready);
    const NormGradient inner = {first.x.data(), middle, nullptr, block.middle.signs.data()};
    reverse_norm(first, inner, nullptr, ready);
    reverse_unit(first, inner, input, input, ready);
    return {input, past};
  }

  void reverse_stem(const Gradient& gradient, const Ready& ready) {
    NormGradient masked = {stem_.x.data(), gradient.one, gradient.two, stem_result_.signs.data()};
    if (pool_) {
      pool_->layer.backward(gradient.one, gradient.two, batch_, stem_result_.y.data());
      masked.dy = stem_result_.y.data();
      masked.dy2 = nullptr;
    }
    reverse_norm(stem_, masked, nullptr, ready);
    reverse_unit(stem_, masked, images_, nullptr, ready);
  }

  const ResNetPlan plan_;
  Unit stem_;
  const Activation<Layers> stem_result_;
  std::optional<Pool> pool_;
  std::deque<Block> blocks_;
  typename Layers::AveragePool average_;
  const Memory<Feature> features_;
  typename Layers::Head head_;
  const Memory<float> logits_;
  const Memory<Element> shortcut_gradient_;
};

}  // namespace muster::nn
