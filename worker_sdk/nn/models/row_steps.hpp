// SPDX-License-Identifier: Apache-2.0
// Steps that read and write rows.
#pragma once

#include "worker_sdk/nn/models/step.hpp"

namespace muster::nn {

/// What they share: the plan, and where the result is.
template <LayerSet Layers>
class RowStep : public Step {
 public:
  void* result() const override { return previous_ != nullptr ? previous_->result() : y_->data(); }

 protected:
  using Element = typename Layers::Element;
  using Feature = typename Layers::Feature;

  /// A step in place writes where `previous` has written, and takes no memory.
  RowStep(const Shared<Layers>& shared, const PlannedStep& step, const Step* previous = nullptr)
      : plan_(step), previous_(step.in_place ? previous : nullptr) {
    if (previous_ == nullptr) y_.emplace(shared.room, step.out.elements() * sizeof(Feature));
  }

  static const Feature* rows(const void* memory) { return static_cast<const Feature*>(memory); }

  static Feature* rows(void* memory) { return static_cast<Feature*>(memory); }

  Feature* y() const { return rows(result()); }

  /// Rows of the input.
  std::int64_t count(const Pass& pass) const { return pass.batch * plan_.in.tokens; }

  /// Shows the result.
  void watch_result(const Watch& watch) const {
    watch({plan_.name, result(), plan_.out.elements(), sizeof(Feature)});
  }

  /// The last parameter first.
  void tell(const Ready& ready) const {
    for (std::size_t i = plan_.parameters; i-- > 0;) ready(plan_.parameter + i);
  }

  const PlannedStep plan_;

 private:
  const Step* const previous_;
  std::optional<Memory<Feature>> y_;
};

/// What the gradient of a layer's input follows from, beside that of its result.
enum class Needs : std::uint8_t { nothing, input, result };

/// Whether a layer is told the number of rows, or of samples.
enum class Counts : std::uint8_t { rows, samples };

/// A layer without parameters.
template <LayerSet Layers, typename Layer, Needs needs, Counts counts = Counts::rows>
class PlainStep final : public RowStep<Layers> {
 public:
  template <typename... Sizes>
  PlainStep(const Shared<Layers>& shared, const PlannedStep& step, const Step* previous, Sizes... sizes)
      : RowStep<Layers>(shared, step, previous), layer_(shared.room, sizes...) {}

  void forward(const void* x, const Pass& pass) override {
    layer_.forward(this->rows(x), number(pass), this->y());
  }

  Gradient backward(const Gradient& dy, const void* x, void* dx, const Pass& pass, const Ready&) override {
    if (dx == nullptr) return {};
    if constexpr (needs == Needs::nothing)
      layer_.backward(this->rows(dy.one), number(pass), this->rows(dx));
    else
      layer_.backward(needs == Needs::input ? this->rows(x) : this->y(), this->rows(dy.one), number(pass),
                      this->rows(dx));
    return {dx, nullptr};
  }

 private:
  std::int64_t number(const Pass& pass) const {
    return counts == Counts::rows ? this->count(pass) : pass.batch;
  }

  Layer layer_;
};

/// What steps with one layer that has parameters share.
template <LayerSet Layers, typename Layer>
class TrainedStep : public RowStep<Layers> {
 public:
  void bind(std::span<const ParameterSlot> slots, std::span<float* const>) override {
    const ParameterSlot second = plan_.parameters > 1 ? slots[plan_.parameter + 1] : ParameterSlot();
    if constexpr (requires { layer_.bind(second); })
      layer_.bind(slots[plan_.parameter]);
    else
      layer_.bind(slots[plan_.parameter], second);
  }

  void weights_changed() override {
    if constexpr (requires { layer_.weights_changed(); }) layer_.weights_changed();
  }

  void each_result(const Watch& watch) const override { this->watch_result(watch); }

 protected:
  template <typename... Sizes>
  TrainedStep(const Shared<Layers>& shared, const PlannedStep& step, const Step* previous, Sizes... sizes)
      : RowStep<Layers>(shared, step, previous), layer_(shared.room, sizes...) {}

  using RowStep<Layers>::plan_;
  Layer layer_;
};

template <LayerSet Layers>
class LinearStep final : public TrainedStep<Layers, typename Layers::Linear> {
 public:
  LinearStep(const Shared<Layers>& shared, const PlannedStep& step)
      : TrainedStep<Layers, typename Layers::Linear>(shared, step, nullptr, step.in.width, step.out.width,
                                                     step.bias, step.in.tokens) {}

  void forward(const void* x, const Pass& pass) override {
    this->layer_.forward(this->rows(x), this->count(pass), this->y());
  }

  Gradient backward(const Gradient& dy, const void* x, void* dx, const Pass& pass,
                    const Ready& ready) override {
    this->layer_.backward(this->rows(x), this->rows(dy.one), this->count(pass), this->rows(dx));
    this->tell(ready);
    return {dx, nullptr};
  }
};

template <LayerSet Layers>
class LayerNormStep final : public TrainedStep<Layers, typename Layers::LayerNorm> {
 public:
  LayerNormStep(const Shared<Layers>& shared, const PlannedStep& step)
      : TrainedStep<Layers, typename Layers::LayerNorm>(shared, step, nullptr, step.in.tokens,
                                                        step.in.width) {}

  void forward(const void* x, const Pass& pass) override {
    this->layer_.forward(this->rows(x), this->count(pass), this->y());
  }

  /// An unwanted gradient goes where the result was.
  Gradient backward(const Gradient& dy, const void* x, void* dx, const Pass& pass,
                    const Ready& ready) override {
    this->layer_.backward(this->rows(x), this->rows(dy.one), this->count(pass),
                          dx != nullptr ? this->rows(dx) : this->y());
    this->tell(ready);
    return {dx, nullptr};
  }
};

/// The gradient of its input is that of its result, and stays where it is.
template <LayerSet Layers>
class PositionsStep final : public TrainedStep<Layers, typename Layers::Positions> {
 public:
  PositionsStep(const Shared<Layers>& shared, const PlannedStep& step, const Step* previous)
      : TrainedStep<Layers, typename Layers::Positions>(shared, step, previous, step.in.tokens,
                                                        step.in.width) {}

  void forward(const void* x, const Pass& pass) override {
    this->layer_.forward(this->rows(x), pass.batch, this->y());
  }

  Gradient backward(const Gradient& dy, const void*, void*, const Pass& pass, const Ready& ready) override {
    this->layer_.backward(this->rows(dy.one), pass.batch);
    this->tell(ready);
    return dy;
  }
};

/// In an evaluation it passes on what it reads.
template <LayerSet Layers>
class DropoutStep final : public RowStep<Layers> {
 public:
  DropoutStep(const Shared<Layers>& shared, const PlannedStep& step, const Step* previous)
      : Base(shared, step, previous), layer_(shared.room, step.in.tokens, step.in.width, step.share) {}

  void forward(const void* x, const Pass& pass) override {
    passed_ = pass.mode == Mode::train ? nullptr : const_cast<void*>(x);
    if (passed_ == nullptr) layer_.forward(this->rows(x), this->count(pass), this->y(), key(pass));
  }

  void* result() const override { return passed_ != nullptr ? passed_ : Base::result(); }

  Gradient backward(const Gradient& dy, const void*, void* dx, const Pass& pass, const Ready&) override {
    if (dx != nullptr) layer_.backward(this->rows(dy.one), this->count(pass), this->rows(dx), key(pass));
    return {dx, nullptr};
  }

 private:
  using Base = RowStep<Layers>;
  using Base::plan_;

  DropoutKey key(const Pass& pass) const {
    DropoutKey key = pass.draws;
    key.layer = plan_.number;
    return key;
  }

  typename Layers::Dropout layer_;
  void* passed_ = nullptr;
};

/// body(x) + shortcut(x), or + x.
template <LayerSet Layers>
class ResidualRowsStep final : public RowStep<Layers> {
 public:
  ResidualRowsStep(const Shared<Layers>& shared, const PlannedStep& step, Chain<Layers> body,
                   Chain<Layers> shortcut)
      : RowStep<Layers>(shared, step, body.last()),
        body_(std::move(body)),
        shortcut_(std::move(shortcut)),
        sum_(shared.room, step.out.tokens, step.out.width),
        gradient_sum_(shared.room, step.in.tokens, step.in.width) {
    if (shortcut_.size() > 0)
      past_.emplace(shared.room, step.in.elements() * sizeof(Feature), &MemoryUse::workspace);
  }

  void bind(std::span<const ParameterSlot> slots, std::span<float* const> buffers) override {
    body_.bind(slots, buffers);
    shortcut_.bind(slots, buffers);
  }

  void weights_changed() override {
    body_.weights_changed();
    shortcut_.weights_changed();
  }

  void forward(const void* x, const Pass& pass) override {
    const void* const inner = body_.forward(x, pass);
    const std::int64_t rows = pass.batch * this->plan_.out.tokens;
    sum_.run(this->rows(shortcut_.forward(x, pass)), this->rows(inner), rows, this->y());
  }

  /// The shortcut goes first: the body writes where x was.
  Gradient backward(const Gradient& dy, const void* x, void* dx, const Pass& pass,
                    const Ready& ready) override {
    void* const place = past_ && dx != nullptr ? past_->data() : nullptr;
    const Gradient past = shortcut_.backward(dy, x, place, pass, ready);
    const Gradient inner = body_.backward(dy, x, dx, pass, ready);
    if (dx != nullptr)
      gradient_sum_.run(this->rows(inner.one), this->rows(past.one), this->count(pass), this->rows(dx));
    return {dx, nullptr};
  }

  void each_result(const Watch& watch) const override {
    body_.each_result(watch);
    shortcut_.each_result(watch);
  }

 private:
  using Feature = typename RowStep<Layers>::Feature;

  Chain<Layers> body_;
  Chain<Layers> shortcut_;
  typename Layers::Sum sum_;
  typename Layers::Sum gradient_sum_;
  std::optional<Memory<Feature>> past_;  ///< the gradient from the shortcut
};

template <LayerSet Layers>
class HiddenStep final : public TrainedStep<Layers, typename Layers::Hidden> {
 public:
  HiddenStep(const Shared<Layers>& shared, const PlannedStep& step)
      : TrainedStep<Layers, typename Layers::Hidden>(shared, step, nullptr, step.in.width, step.out.width) {}

  void forward(const void* x, const Pass& pass) override {
    if (pass.batch > 0) this->layer_.forward(this->rows(x), pass.batch, this->y());
  }

  Gradient backward(const Gradient& dy, const void* x, void* dx, const Pass& pass,
                    const Ready& ready) override {
    if (pass.batch > 0)
      this->layer_.backward(this->rows(x), this->y(), this->rows(const_cast<void*>(dy.one)), pass.batch,
                            this->rows(dx));
    this->tell(ready);
    return {dx, nullptr};
  }
};

}  // namespace muster::nn
