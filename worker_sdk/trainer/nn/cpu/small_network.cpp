// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/cpu/small_network.hpp"

#include "muster/error.hpp"
#include "worker_sdk/trainer/nn/cpu/finite.hpp"
#include "worker_sdk/trainer/nn/cpu/machine.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <algorithm>
#include <string>

namespace muster::nn::cpu {
namespace {

constexpr std::int64_t kSide = 32;
constexpr std::int64_t kFeatures = 4096;  // 64 channels of 8 x 8
constexpr std::int64_t kHidden = 128;

LayerParameters linear_parameters(const std::vector<ParameterSlot>& slots, std::size_t weight) {
  const ParameterSlot& w = slots[weight];
  const ParameterSlot& b = slots[weight + 1];
  return {w.value, b.value, w.gradient, b.gradient};
}

MapShape pooled_map(const MapShape& shape) {
  return {shape.channels, shape.side / 2, shape.format};
}

/// Not oneDNN's, which makes 0 of what is not a number and so hides it from the loss.
void relu(float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = values[i] <= 0 ? 0 : values[i];
}

void relu_backward(const float* result, float* gradient, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) gradient[i] = result[i] > 0 ? gradient[i] : 0;
}

}  // namespace

ModelSpec small_cnn_spec(std::int64_t classes) {
  ModelSpec spec;
  spec.name = "small-cnn";
  spec.classes = classes;
  spec.parameters = {{"conv1.weight", {32, 3, 3, 3}},      {"conv1.bias", {32}, false},
                     {"conv2.weight", {64, 32, 3, 3}},     {"conv2.bias", {64}, false},
                     {"fc1.weight", {kHidden, kFeatures}}, {"fc1.bias", {kHidden}, false},
                     {"fc2.weight", {classes, kHidden}},   {"fc2.bias", {classes}, false}};
  return spec;
}

SmallNetwork::Stage::Stage(const std::shared_ptr<const Runtime>& runtime, const ConvolutionShape& shape,
                           PooledTo destination)
    : convolution(runtime, shape), to(destination) {}

void SmallNetwork::Stage::reserve(std::int64_t batch) {
  const MapShape map = convolution.out_map();
  const std::size_t elements = pooled_map(map).elements(batch);
  x.reserve(map.bytes(batch));
  pooled.reserve(elements * (to == PooledTo::features ? sizeof(float) : map.format.element_bytes()));
  winners.reserve(elements);
}

void SmallNetwork::Stage::forward(const void* input, std::int64_t batch) {
  convolution.forward(input, batch, x.data());
  relu_pool(convolution.out_map(), x.data(), bias.value, to, pooled.data(), winners.data<std::uint8_t>(),
            batch);
}

void SmallNetwork::Stage::backward(const void* gradient, const void* input, std::int64_t batch,
                                   void* input_gradient) {
  relu_pool_backward(convolution.out_map(), gradient, to, winners.data<std::uint8_t>(), x.data(),
                     bias.gradient, batch);
  convolution.backward_weights(input, x.data(), batch);
  if (input_gradient != nullptr) convolution.backward_data(x.data(), batch, input_gradient);
}

SmallNetwork::SmallNetwork(const NetworkOptions& options)
    : spec_(small_cnn_spec(options.classes)),
      options_(options),
      runtime_(std::make_shared<Runtime>()),
      first_(runtime_, {3, 32, kSide, 3, 1, map_format(options.precision), true}, PooledTo::map),
      second_(runtime_, {32, 64, kSide / 2, 3, 1, map_format(options.precision), false}, PooledTo::features) {
}

void SmallNetwork::bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) {
  if (parameters.size() != spec_.parameters.size() || !buffers.empty())
    throw Error(ErrorCode::invalid_argument,
                "small-cnn has " + std::to_string(spec_.parameters.size()) +
                    " parameters and no buffers, but " + std::to_string(parameters.size()) + " and " +
                    std::to_string(buffers.size()) + " were bound; pass one place for each entry of spec()");
  slots_.assign(parameters.begin(), parameters.end());
  first_.convolution.bind(slots_[0]);
  first_.bias = slots_[1];
  second_.convolution.bind(slots_[2]);
  second_.bias = slots_[3];
  hidden_ = std::make_unique<Linear>(runtime_, LinearShape{kFeatures, kHidden}, linear_parameters(slots_, 4));
  head_ =
      std::make_unique<Linear>(runtime_, LinearShape{kHidden, spec_.classes}, linear_parameters(slots_, 6));
}

void SmallNetwork::parameters_changed() {
  first_.convolution.weights_changed();
  second_.convolution.weights_changed();
}

const float* SmallNetwork::forward(const void* images, std::int64_t batch, Mode) {
  if (options_.threads > 0) set_threads(options_.threads);
  images_ = images;
  batch_ = batch;
  if (batch == 0) return nullptr;
  first_.reserve(batch);
  second_.reserve(batch);
  first_.forward(images, batch);
  second_.forward(first_.pooled.data(), batch);
  float* hidden = hidden_->forward(second_.pooled.data<float>(), batch);
  relu(hidden, static_cast<std::size_t>(batch * kHidden));
  hidden_result_ = hidden;
  logits_ = head_->forward(hidden_result_, batch);
  return logits_;
}

void SmallNetwork::backward(const float* logits_gradient, const Ready& ready) {
  if (batch_ == 0) {
    for (std::size_t i = slots_.size(); i-- > 0;) {
      std::fill_n(slots_[i].gradient, spec_.parameters[i].elements(), 0.0F);
      ready(i);
    }
    return;
  }
  const auto both_ready = [&ready](std::size_t weight) {
    ready(weight + 1);
    ready(weight);
  };
  float* hidden = head_->backward(logits_gradient);
  both_ready(6);
  relu_backward(hidden_result_, hidden, static_cast<std::size_t>(batch_ * kHidden));
  const float* features = hidden_->backward(hidden);
  both_ready(4);
  second_.backward(features, first_.pooled.data(), batch_, first_.pooled.data());
  both_ready(2);
  first_.backward(first_.pooled.data(), images_, batch_, nullptr);
  both_ready(0);
}

std::string SmallNetwork::first_not_finite() const {
  if (batch_ == 0) return {};
  if (!finite(first_.convolution.out_map(), first_.x.data(), batch_)) return "conv1";
  if (!finite(second_.convolution.out_map(), second_.x.data(), batch_)) return "conv2";
  if (!finite(hidden_result_, static_cast<std::size_t>(batch_ * kHidden))) return "fc1";
  return finite(logits_, static_cast<std::size_t>(batch_ * spec_.classes)) ? "" : "fc2";
}

MemoryUse SmallNetwork::memory() const {
  MemoryUse use;
  for (const Stage* stage : {&first_, &second_}) {
    use.activations += stage->x.bytes() + stage->pooled.bytes() + stage->winners.bytes();
    use.workspace += stage->convolution.workspace_bytes();
  }
  return use;
}

double SmallNetwork::flops_per_image() const {
  return 2 * first_.convolution.shape().operations() + 3 * second_.convolution.shape().operations() +
         6 * static_cast<double>(kFeatures * kHidden + kHidden * spec_.classes);
}

}  // namespace muster::nn::cpu
