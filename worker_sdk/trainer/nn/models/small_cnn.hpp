// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/models/model.hpp"

#include <string>

namespace muster::nn {

/// 545,098 parameters for ten classes: 3x3 convolution to 32 channels, ReLU, 2x2 maximum; the same to 64
/// channels; linear to 128, ReLU; linear to the classes. The columns of fc1.weight are in the order height,
/// width, channels (PyTorch's flatten() makes it channels, height, width).
ModelSpec small_cnn_spec(std::int64_t classes);

/// The network of small_cnn_spec(). Gradients of maps are written where the maps were.
template <LayerSet Layers>
class SmallCnn final : public Model<Layers> {
 public:
  SmallCnn(std::int64_t classes, const typename Layers::Options& options)
      : Base(small_cnn_spec(classes), options),
        inputs_(spec_.parameters[kHidden].shape[1]),
        outputs_(spec_.parameters[kHidden].shape[0]),
        first_(room_, size_of(kFirst, kImageSide), PooledTo::map),
        middle_(room_, room_.map_bytes(first_.size.result()) / 4),
        second_(room_, size_of(kSecond, kImageSide / 2), PooledTo::features),
        features_(room_, static_cast<std::size_t>(inputs_) * sizeof(Feature)),
        hidden_(room_, inputs_, outputs_),
        result_(room_, static_cast<std::size_t>(outputs_) * sizeof(Feature)),
        result_gradient_(room_, static_cast<std::size_t>(outputs_) * sizeof(Feature), &MemoryUse::workspace),
        head_(room_, outputs_, classes),
        logits_(room_, static_cast<std::size_t>(classes) * sizeof(float)) {}

  void bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) override {
    this->keep(parameters, buffers);
    first_.convolution.bind(slots_[kFirst]);
    first_.pool.bind(slots_[kFirst + 1]);
    second_.convolution.bind(slots_[kSecond]);
    second_.pool.bind(slots_[kSecond + 1]);
    hidden_.bind(slots_[kHidden], slots_[kHidden + 1]);
    head_.bind(slots_[kHead], slots_[kHead + 1]);
  }

  void parameters_changed() override {
    first_.convolution.weights_changed();
    second_.convolution.weights_changed();
    hidden_.weights_changed();
    head_.weights_changed();
  }

  const float* forward(const void* images, std::int64_t batch, Mode) override {
    this->begin(images, batch);
    if (batch == 0) return nullptr;
    run_stage(first_, images_, middle_.data());
    run_stage(second_, middle_.data(), features_.data());
    hidden_.forward(features_.data(), batch, result_.data());
    head_.forward(result_.data(), batch, logits_.data());
    return logits_.data();
  }

  void backward(const float* logits_gradient, const Ready& ready) override {
    if (batch_ == 0) {
      this->clear_gradients();
      for (std::size_t i = slots_.size(); i-- > 0;) ready(i);
      return;
    }
    head_.backward(result_.data(), logits_gradient, batch_, result_gradient_.data());
    ready(kHead + 1);
    ready(kHead);
    hidden_.backward(features_.data(), result_.data(), result_gradient_.data(), batch_, features_.data());
    ready(kHidden + 1);
    ready(kHidden);
    reverse_stage(second_, kSecond, features_.data(), middle_.data(), middle_.data(), ready);
    reverse_stage(first_, kFirst, middle_.data(), images_, nullptr, ready);
  }

  std::string first_not_finite() const override {
    const auto bad = [this](const Stage& stage) {
      return !this->finite(stage.x.data(), stage.size.result().elements(), room_.element_bytes());
    };
    if (bad(first_)) return this->layer_of(kFirst);
    if (bad(second_)) return this->layer_of(kSecond);
    if (!this->finite(result_.data(), static_cast<std::size_t>(outputs_), sizeof(Feature)))
      return this->layer_of(kHidden);
    const auto classes = static_cast<std::size_t>(spec_.classes);
    return this->finite(logits_.data(), classes, sizeof(float)) ? "" : this->layer_of(kHead);
  }

  double flops_per_image() const override {
    return 2 * first_.size.operations() + 3 * second_.size.operations() +
           6 * static_cast<double>(outputs_ * (inputs_ + spec_.classes));
  }

 private:
  using Base = Model<Layers>;
  using Element = typename Layers::Element;
  using Feature = typename Layers::Feature;
  using Base::batch_;
  using Base::images_;
  using Base::room_;
  using Base::slots_;
  using Base::spec_;

  /// Places in the spec of the weights, each with its bias behind it.
  enum Weight : std::size_t { kFirst = 0, kSecond = 2, kHidden = 4, kHead = 6 };

  /// A convolution, its result x, and what follows it.
  struct Stage {
    Stage(typename Layers::Room& room, const ConvolutionSize& s, PooledTo to)
        : size(s), convolution(room, s), x(room, room.map_bytes(s.result())), pool(room, s.result(), to) {}

    const ConvolutionSize size;
    typename Layers::Convolution convolution;
    const Memory<Element> x;
    typename Layers::BiasPool pool;
  };

  ConvolutionSize size_of(Weight weight, std::int64_t side) const {
    const std::vector<std::int64_t>& shape = spec_.parameters[weight].shape;
    return {shape[1], shape[0], side, shape[2], 1};
  }

  void run_stage(Stage& stage, const Element* input, Element* pooled) {
    stage.convolution.forward(input, batch_, stage.x.data());
    stage.pool.forward(stage.x.data(), batch_, pooled);
  }

  /// From the gradient of the pooled result. Without `input_gradient` that one is not computed.
  void reverse_stage(Stage& stage, Weight weight, const Element* gradient, const Element* input,
                     Element* input_gradient, const Ready& ready) {
    stage.pool.backward(gradient, batch_, stage.x.data());
    ready(weight + 1);
    stage.convolution.backward_weights(input, stage.x.data(), batch_);
    if (input_gradient != nullptr) stage.convolution.backward_data(stage.x.data(), batch_, input_gradient);
    ready(weight);
  }

  const std::int64_t inputs_, outputs_;  ///< of the hidden layer
  Stage first_;
  const Memory<Element> middle_;
  Stage second_;
  const Memory<Feature> features_;
  typename Layers::Hidden hidden_;
  const Memory<Feature> result_;
  const Memory<Feature> result_gradient_;
  typename Layers::Head head_;
  const Memory<float> logits_;
};

}  // namespace muster::nn
