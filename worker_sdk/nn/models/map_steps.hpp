// SPDX-License-Identifier: Apache-2.0
// Steps that read images or maps.
#pragma once

#include "worker_sdk/nn/models/step.hpp"

#include <optional>
#include <utility>

namespace muster::nn {

/// A convolution, its result x, and the batch norm that reads it: what the two steps with norms are made of.
template <LayerSet Layers>
class NormedConvolution {
 public:
  using Element = typename Layers::Element;
  using Sign = typename Layers::Sign;
  using NormGradient = typename Layers::NormGradient;

  NormedConvolution(typename Layers::Room& room, const PlannedStep& step)
      : plan_(step),
        convolution_(room, step.convolution),
        norm_(room, step.convolution.result()),
        x_(room, room.map_bytes(step.convolution.result())),
        element_bytes_(room.element_bytes()) {}

  void bind(std::span<const ParameterSlot> slots, std::span<float* const> buffers) {
    const std::size_t p = plan_.parameter;
    const std::size_t b = plan_.buffer;
    convolution_.bind(slots[p]);
    norm_.bind(slots[p + 1], slots[p + 2], buffers[b], buffers[b + 1]);
  }

  void weights_changed() { convolution_.weights_changed(); }

  void measure(const void* input, const Pass& pass) {
    convolution_.forward(static_cast<const Element*>(input), pass.batch, x_.data());
    if (!pass.again) norm_.measure(x_.data(), pass.batch, pass.mode);
  }

  /// relu(norm(x) + addend), where the addend is the map that `normed` has measured, through its norm, or
  /// `addend` as it is, or nothing.
  void apply(const void* addend, const NormedConvolution* normed, Element* y, Sign* signs,
             const Pass& pass) const {
    const auto* const added = normed != nullptr ? normed->x_.data() : static_cast<const Element*>(addend);
    norm_.apply(x_.data(), added, normed != nullptr ? &normed->norm_ : nullptr, y,
                pass.mode == Mode::train ? signs : nullptr, pass.batch);
  }

  /// The gradient that goes back through the norm.
  NormGradient through(const Gradient& dy, const Sign* signs) const {
    return {x_.data(), static_cast<const Element*>(dy.one), static_cast<const Element*>(dy.two), signs};
  }

  /// The first half of backward: the gradients of the norm. Where `out` is not null, it gets the gradient of
  /// the sum before ReLU.
  void reverse_norm(const NormGradient& gradient, Element* out, const Pass& pass, const Ready& ready) {
    norm_.backward_sums(gradient, out, pass.batch);
    ready(plan_.parameter + 2);
    ready(plan_.parameter + 1);
  }

  /// The second half, from the same gradient. Without `dx` that one is not computed.
  void reverse(const NormGradient& gradient, const void* input, void* dx, const Pass& pass,
               const Ready& ready) {
    norm_.backward(gradient, x_.data(), pass.batch);
    convolution_.backward_weights(static_cast<const Element*>(input), x_.data(), pass.batch);
    if (dx != nullptr) convolution_.backward_data(x_.data(), pass.batch, static_cast<Element*>(dx));
    ready(plan_.parameter);
  }

  void each_result(const Watch& watch) const {
    watch({plan_.name, x_.data(), plan_.convolution.result().elements(), element_bytes_});
  }

 private:
  const PlannedStep plan_;
  typename Layers::Convolution convolution_;
  typename Layers::Norm norm_;
  const Memory<Element> x_;
  const std::size_t element_bytes_;
};

/// The result of a batch norm with ReLU, and where it is positive.
template <LayerSet Layers>
struct Activation {
  Activation(typename Layers::Room& room, const MapExtent& extent)
      : y(room, room.map_bytes(extent)), signs(room, extent.elements() / 8) {}

  const Memory<typename Layers::Element> y;
  const Memory<typename Layers::Sign> signs;
};

template <LayerSet Layers>
class ConvolutionNormStep final : public Step {
 public:
  ConvolutionNormStep(typename Layers::Room& room, const PlannedStep& step)
      : unit_(room, step), result_(room, step.out.extent()) {}

  void bind(std::span<const ParameterSlot> slots, std::span<float* const> buffers) override {
    unit_.bind(slots, buffers);
  }

  void weights_changed() override { unit_.weights_changed(); }

  void forward(const void* x, const Pass& pass) override {
    unit_.measure(x, pass);
    unit_.apply(nullptr, nullptr, result_.y.data(), result_.signs.data(), pass);
  }

  void* result() const override { return result_.y.data(); }

  Gradient backward(const Gradient& dy, const void* x, void* dx, const Pass& pass,
                    const Ready& ready) override {
    const auto gradient = unit_.through(dy, result_.signs.data());
    unit_.reverse_norm(gradient, nullptr, pass, ready);
    unit_.reverse(gradient, x, dx, pass, ready);
    return {dx, nullptr};
  }

  void each_result(const Watch& watch) const override { unit_.each_result(watch); }

 private:
  NormedConvolution<Layers> unit_;
  const Activation<Layers> result_;
};

/// relu(last(body(x)) + shortcut(x)), where `last` is a convolution and its norm, and the shortcut, too, or
/// nothing.
template <LayerSet Layers>
class ResidualMapsStep final : public Step {
 public:
  ResidualMapsStep(const Shared<Layers>& shared, const PlannedStep& step, Chain<Layers> body)
      : shared_(shared),
        body_(std::move(body)),
        last_(shared.room, step.body.back()),
        result_(shared.room, step.out.extent()),
        sum_aside_(step.sum_aside) {
    if (!step.shortcut.empty()) shortcut_.emplace(shared.room, step.shortcut.front());
  }

  void bind(std::span<const ParameterSlot> slots, std::span<float* const> buffers) override {
    body_.bind(slots, buffers);
    last_.bind(slots, buffers);
    if (shortcut_) shortcut_->bind(slots, buffers);
  }

  void weights_changed() override {
    body_.weights_changed();
    last_.weights_changed();
    if (shortcut_) shortcut_->weights_changed();
  }

  void set_units(std::size_t first) override {
    for (std::size_t i = 0; i < body_.size(); ++i) body_.set_unit(i, first + i);
    unit_ = first + body_.size();
  }

  void set_unit_user(UnitUser* user) override {
    user_ = user;
    body_.set_unit_user(user);
  }

  void forward(const void* x, const Pass& pass) override {
    const void* const middle = body_.forward(x, pass);
    const UnitUse use(user_, unit_, *this, false);
    last_.measure(middle, pass);
    if (shortcut_) shortcut_->measure(x, pass);
    last_.apply(x, shortcut_ ? &*shortcut_ : nullptr, result_.y.data(), result_.signs.data(), pass);
  }

  void* result() const override { return result_.y.data(); }

  Gradient backward(const Gradient& dy, const void* x, void* dx, const Pass& pass,
                    const Ready& ready) override {
    void* const middle = body_.size() > 0 ? body_[body_.size() - 1].result() : dx;
    const void* const past = backward_of_last(dy, x, middle, pass, ready);
    const Gradient inner = body_.backward({middle, nullptr}, x, dx, pass, ready);
    return {inner.one, past};
  }

  void each_result(const Watch& watch) const override {
    body_.each_result(watch);
    last_.each_result(watch);
    if (shortcut_) shortcut_->each_result(watch);
  }

 private:
  /// Of the body's last step, to `middle`, and of the shortcut. Returns what goes past the body.
  const void* backward_of_last(const Gradient& dy, const void* x, void* middle, const Pass& pass,
                               const Ready& ready) {
    const UnitUse use(user_, unit_, *this, true);
    // The gradient of the sum, which goes to the body and past it, replaces the result. Aside it may replace
    // the second part of dy.
    auto* const sum = sum_aside_ ? shared_.shortcut->data() : result_.y.data();
    last_.reverse_norm(last_.through(dy, result_.signs.data()), sum, pass, ready);
    const void* past = sum;
    if (shortcut_) {
      const auto through = shortcut_->through({sum, nullptr}, nullptr);
      auto* const gradient = shared_.shortcut->data();
      shortcut_->reverse_norm(through, nullptr, pass, ready);
      shortcut_->reverse(through, x, gradient, pass, ready);
      past = gradient;
    }
    // From here on nobody reads x but the body's first step.
    const void* const input = body_.size() > 0 ? body_[body_.size() - 1].result() : x;
    last_.reverse(last_.through({sum, nullptr}, nullptr), input, middle, pass, ready);
    return past;
  }

  const Shared<Layers>& shared_;
  Chain<Layers> body_;
  UnitUser* user_ = nullptr;
  std::optional<std::size_t> unit_;  ///< that of last_ and shortcut_, where the body has units of its own
  NormedConvolution<Layers> last_;
  std::optional<NormedConvolution<Layers>> shortcut_;
  const Activation<Layers> result_;
  const bool sum_aside_;
};

template <LayerSet Layers>
class MaxPoolStep final : public Step {
 public:
  MaxPoolStep(typename Layers::Room& room, const PlannedStep& step)
      : layer_(room, step.in.extent()), y_(room, room.map_bytes(step.out.extent())) {}

  void forward(const void* x, const Pass& pass) override {
    layer_.forward(static_cast<const Element*>(x), pass.batch, pass.mode, y_.data());
  }

  void* result() const override { return y_.data(); }

  Gradient backward(const Gradient& dy, const void*, void* dx, const Pass& pass, const Ready&) override {
    layer_.backward(static_cast<const Element*>(dy.one), static_cast<const Element*>(dy.two), pass.batch,
                    static_cast<Element*>(dx));
    return {dx, nullptr};
  }

 private:
  using Element = typename Layers::Element;

  typename Layers::MaxPool layer_;
  const Memory<Element> y_;
};

/// A convolution and what follows it, which adds the bias.
template <LayerSet Layers>
class ConvolutionPoolStep final : public Step {
 public:
  ConvolutionPoolStep(typename Layers::Room& room, const PlannedStep& step)
      : plan_(step),
        convolution_(room, step.convolution),
        x_(room, room.map_bytes(step.convolution.result())),
        pool_(room, step.convolution.result(), step.pooled_to),
        y_(room, step.pooled_to == PooledTo::map ? room.map_bytes(step.out.extent())
                                                 : step.out.elements() * sizeof(typename Layers::Feature)),
        element_bytes_(room.element_bytes()) {}

  void bind(std::span<const ParameterSlot> slots, std::span<float* const>) override {
    convolution_.bind(slots[plan_.parameter]);
    pool_.bind(slots[plan_.parameter + 1]);
  }

  void weights_changed() override { convolution_.weights_changed(); }

  void forward(const void* x, const Pass& pass) override {
    if (pass.batch == 0) return;
    convolution_.forward(static_cast<const Element*>(x), pass.batch, x_.data());
    pool_.forward(x_.data(), pass.batch, y_.data());
  }

  void* result() const override { return y_.data(); }

  Gradient backward(const Gradient& dy, const void* x, void* dx, const Pass& pass,
                    const Ready& ready) override {
    if (pass.batch > 0) pool_.backward(static_cast<const Element*>(dy.one), pass.batch, x_.data());
    ready(plan_.parameter + 1);
    if (pass.batch > 0) {
      convolution_.backward_weights(static_cast<const Element*>(x), x_.data(), pass.batch);
      if (dx != nullptr) convolution_.backward_data(x_.data(), pass.batch, static_cast<Element*>(dx));
    }
    ready(plan_.parameter);
    return {dx, nullptr};
  }

  void each_result(const Watch& watch) const override {
    watch({plan_.name, x_.data(), plan_.convolution.result().elements(), element_bytes_});
  }

 private:
  using Element = typename Layers::Element;

  const PlannedStep plan_;
  typename Layers::Convolution convolution_;
  const Memory<Element> x_;
  typename Layers::BiasPool pool_;
  const Memory<Element> y_;
  const std::size_t element_bytes_;
};

/// A convolution, and its bias where it has one.
template <LayerSet Layers>
class ConvolutionStep final : public Step {
 public:
  ConvolutionStep(typename Layers::Room& room, const PlannedStep& step)
      : plan_(step),
        convolution_(room, step.convolution),
        y_(room, room.map_bytes(step.out.extent())),
        element_bytes_(room.element_bytes()) {
    if (step.bias) bias_.emplace(room, step.out.extent());
  }

  void bind(std::span<const ParameterSlot> slots, std::span<float* const>) override {
    convolution_.bind(slots[plan_.parameter]);
    if (bias_) bias_->bind(slots[plan_.parameter + 1]);
  }

  void weights_changed() override { convolution_.weights_changed(); }

  void forward(const void* x, const Pass& pass) override {
    convolution_.forward(static_cast<const Element*>(x), pass.batch, y_.data());
    if (bias_) bias_->forward(y_.data(), pass.batch, y_.data());
  }

  void* result() const override { return y_.data(); }

  Gradient backward(const Gradient& dy, const void* x, void* dx, const Pass& pass,
                    const Ready& ready) override {
    const auto* const gradient = static_cast<const Element*>(dy.one);
    if (bias_) {
      bias_->backward(gradient, pass.batch);
      ready(plan_.parameter + 1);
    }
    convolution_.backward_weights(static_cast<const Element*>(x), gradient, pass.batch);
    if (dx != nullptr) convolution_.backward_data(gradient, pass.batch, static_cast<Element*>(dx));
    ready(plan_.parameter);
    return {dx, nullptr};
  }

  void each_result(const Watch& watch) const override {
    watch({plan_.name, y_.data(), plan_.out.elements(), element_bytes_});
  }

 private:
  using Element = typename Layers::Element;

  const PlannedStep plan_;
  typename Layers::Convolution convolution_;
  const Memory<Element> y_;
  std::optional<typename Layers::MapBias> bias_;
  const std::size_t element_bytes_;
};

}  // namespace muster::nn
