// SPDX-License-Identifier: Apache-2.0
// Steps that make rows of something else, and logits of rows.
#pragma once

#include "worker_sdk/nn/models/row_steps.hpp"

namespace muster::nn {

/// A layer that makes rows of a map: AveragePool, Flatten or Tokens.
template <LayerSet Layers, typename Layer>
class MapToRowsStep final : public RowStep<Layers> {
 public:
  MapToRowsStep(const Shared<Layers>& shared, const PlannedStep& step)
      : RowStep<Layers>(shared, step), layer_(shared.room, step.in.extent()) {}

  void forward(const void* x, const Pass& pass) override {
    if (pass.batch > 0) layer_.forward(static_cast<const Element*>(x), pass.batch, this->y());
  }

  Gradient backward(const Gradient& dy, const void*, void* dx, const Pass& pass, const Ready&) override {
    if (pass.batch > 0) layer_.backward(this->rows(dy.one), pass.batch, static_cast<Element*>(dx));
    return {dx, nullptr};
  }

 private:
  using Element = typename Layers::Element;

  Layer layer_;
};

template <LayerSet Layers>
class GreyStep final : public RowStep<Layers> {
 public:
  GreyStep(const Shared<Layers>& shared, const PlannedStep& step)
      : RowStep<Layers>(shared, step), layer_(shared.room, step.in.extent()) {}

  void forward(const void* x, const Pass& pass) override {
    layer_.forward(static_cast<const typename Layers::Element*>(x), pass.batch, this->y());
  }

  /// Nobody wants the gradient of images.
  Gradient backward(const Gradient&, const void*, void*, const Pass&, const Ready&) override { return {}; }

 private:
  typename Layers::Grey layer_;
};

template <LayerSet Layers>
class EmbeddingStep final : public TrainedStep<Layers, typename Layers::Embedding> {
 public:
  EmbeddingStep(const Shared<Layers>& shared, const PlannedStep& step)
      : TrainedStep<Layers, typename Layers::Embedding>(shared, step, nullptr, step.vocabulary,
                                                        step.out.tokens, step.out.width) {}

  void forward(const void* x, const Pass& pass) override {
    this->layer_.forward(static_cast<const std::int32_t*>(x), this->count(pass), this->y());
  }

  Gradient backward(const Gradient& dy, const void* x, void*, const Pass& pass, const Ready& ready) override {
    this->layer_.backward(static_cast<const std::int32_t*>(x), this->rows(dy.one), this->count(pass));
    this->tell(ready);
    return {};
  }
};

/// The last linear layer, whose results are the logits.
template <LayerSet Layers>
class HeadStep final : public Step {
 public:
  HeadStep(const Shared<Layers>& shared, const PlannedStep& step)
      : plan_(step),
        layer_(shared.room, step.in.width, step.out.width),
        logits_(shared.room, step.out.elements() * sizeof(float)) {
    if (step.parameter == 0)
      unwanted_.emplace(shared.room, step.in.elements() * sizeof(Feature), &MemoryUse::workspace);
  }

  void bind(std::span<const ParameterSlot> slots, std::span<float* const>) override {
    layer_.bind(slots[plan_.parameter], slots[plan_.parameter + 1]);
  }

  void weights_changed() override { layer_.weights_changed(); }

  void forward(const void* x, const Pass& pass) override {
    if (pass.batch > 0) layer_.forward(static_cast<const Feature*>(x), pass.batch, logits_.data());
  }

  void* result() const override { return logits_.data(); }

  Gradient backward(const Gradient& dy, const void* x, void* dx, const Pass& pass,
                    const Ready& ready) override {
    if (pass.batch > 0)
      layer_.backward(static_cast<const Feature*>(x), static_cast<const float*>(dy.one), pass.batch,
                      unwanted_ ? unwanted_->data() : static_cast<Feature*>(dx));
    ready(plan_.parameter + 1);
    ready(plan_.parameter);
    return {dx, nullptr};
  }

  void each_result(const Watch& watch) const override {
    watch({plan_.name, logits_.data(), plan_.out.elements(), sizeof(float)});
  }

 private:
  using Feature = typename Layers::Feature;

  const PlannedStep plan_;
  typename Layers::Head layer_;
  const Memory<float> logits_;
  std::optional<Memory<Feature>> unwanted_;  ///< the gradient of the samples, where this is the only layer
};

}  // namespace muster::nn
