// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/cpu/resnet.hpp"

#include "muster/error.hpp"
#include "worker_sdk/trainer/nn/cpu/finite.hpp"
#include "worker_sdk/trainer/nn/cpu/machine.hpp"
#include "worker_sdk/trainer/nn/cpu/pool.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace muster::nn::cpu {

ResNet::Unit::Unit(const std::shared_ptr<const Runtime>& runtime, const ResNetUnit& unit,
                   const MapFormat& format, const NetworkOptions& options, bool of_images)
    : plan(unit),
      convolution(runtime, {unit.in, unit.out, unit.side, unit.kernel, unit.stride, format, of_images}),
      norm(convolution.out_map(), options.sync_batch_norm) {}

ResNet::Block::Block(const std::shared_ptr<const Runtime>& runtime, const ResNetBlock& plan,
                     const MapFormat& format, const NetworkOptions& options)
    : first(runtime, plan.first, format, options, false),
      second(runtime, plan.second, format, options, false) {
  if (plan.has_shortcut) shortcut = std::make_unique<Unit>(runtime, plan.shortcut, format, options, false);
}

ResNet::ResNet(ResNetPlan plan, const NetworkOptions& options)
    : plan_(std::move(plan)),
      options_(options),
      format_(map_format(options.precision)),
      runtime_(std::make_shared<Runtime>()),
      stem_(runtime_, plan_.stem, format_, options, true) {
  for (const ResNetBlock& block : plan_.blocks) blocks_.emplace_back(runtime_, block, format_, options);
}

/// In the order of spec().
std::vector<ResNet::Unit*> ResNet::units() {
  std::vector<Unit*> all = {&stem_};
  for (Block& block : blocks_) {
    all.push_back(&block.first);
    all.push_back(&block.second);
    if (block.shortcut) all.push_back(block.shortcut.get());
  }
  return all;
}

void ResNet::bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) {
  if (parameters.size() != plan_.spec.parameters.size() || buffers.size() != plan_.spec.buffers.size())
    throw Error(ErrorCode::invalid_argument,
                plan_.spec.name + " has " + std::to_string(plan_.spec.parameters.size()) +
                    " parameters and " + std::to_string(plan_.spec.buffers.size()) + " buffers, but " +
                    std::to_string(parameters.size()) + " and " + std::to_string(buffers.size()) +
                    " were bound; pass one place for each entry of spec()");
  for (Unit* unit : units()) {
    const std::size_t p = unit->plan.parameter;
    const std::size_t b = unit->plan.buffer;
    unit->convolution.bind(parameters[p]);
    unit->norm.bind(parameters[p + 1], parameters[p + 2], buffers[b], buffers[b + 1]);
  }
  head_weight_ = parameters[plan_.fc_parameter];
  head_bias_ = parameters[plan_.fc_parameter + 1];
  head_ = std::make_unique<Linear>(
      runtime_, LinearShape{plan_.features, plan_.spec.classes},
      LayerParameters{head_weight_.value, head_bias_.value, head_weight_.gradient, head_bias_.gradient});
}

void ResNet::parameters_changed() {
  for (Unit* unit : units()) unit->convolution.weights_changed();
}

void ResNet::reserve(Activation& activation, const MapShape& shape, std::int64_t batch) const {
  activation.y.reserve(shape.bytes(batch));
  activation.signs.reserve(shape.elements(batch) / 8);
}

void ResNet::reserve(std::int64_t batch) {
  if (batch <= reserved_) return;
  for (Unit* unit : units()) unit->x.reserve(unit->convolution.out_map().bytes(batch));
  reserve(stem_result_, stem_.convolution.out_map(), batch);
  if (plan_.pooled) {
    const MapShape pooled = max_pooled(stem_.convolution.out_map());
    pooled_.reserve(pooled.bytes(batch));
    winners_.reserve(pooled.elements(batch));
  }
  for (Block& block : blocks_) {
    reserve(block.middle, block.first.convolution.out_map(), batch);
    reserve(block.result, block.second.convolution.out_map(), batch);
    if (!block.shortcut) continue;
    const ConvolutionShape& shape = block.shortcut->convolution.shape();
    shortcut_gradient_.reserve(MapShape{shape.in_channels, shape.side, format_}.bytes(batch));
  }
  features_.reserve(static_cast<std::size_t>(batch * plan_.features) * sizeof(float));
  features_gradient_.reserve(features_.bytes());
  reserved_ = batch;
}

std::uint16_t* ResNet::signs(const Activation& activation, Mode mode) const {
  return mode == Mode::train ? activation.signs.data<std::uint16_t>() : nullptr;
}

const void* ResNet::run_unit(Unit& unit, const void* input, Mode mode) {
  unit.convolution.forward(input, batch_, unit.x.data());
  unit.norm.measure(unit.x.data(), batch_, mode);
  return unit.x.data();
}

const void* ResNet::run_block(Block& block, const void* input, Mode mode) {
  const void* x = run_unit(block.first, input, mode);
  void* middle = block.middle.y.data();
  block.first.norm.apply(x, nullptr, nullptr, middle, signs(block.middle, mode), batch_);
  x = run_unit(block.second, middle, mode);
  const void* addend = block.shortcut ? run_unit(*block.shortcut, input, mode) : input;
  void* result = block.result.y.data();
  block.second.norm.apply(x, addend, block.shortcut ? &block.shortcut->norm : nullptr, result,
                          signs(block.result, mode), batch_);
  return result;
}

const float* ResNet::forward(const void* images, std::int64_t batch, Mode mode) {
  if (options_.threads > 0) set_threads(options_.threads);
  reserve(batch);
  images_ = images;
  batch_ = batch;
  const void* maps = run_unit(stem_, images, mode);
  stem_.norm.apply(maps, nullptr, nullptr, stem_result_.y.data(), signs(stem_result_, mode), batch);
  maps = stem_result_.y.data();
  if (plan_.pooled) {
    max_pool(stem_.convolution.out_map(), maps, pooled_.data(),
             mode == Mode::train ? winners_.data<std::uint8_t>() : nullptr, batch);
    maps = pooled_.data();
  }
  for (Block& block : blocks_) maps = run_block(block, maps, mode);
  if (batch == 0) return no_logits_.data();
  average_pool(blocks_.back().second.convolution.out_map(), maps, features_.data<float>(), batch);
  return head_->forward(features_.data<float>(), batch);
}

void ResNet::backward(const float* logits_gradient, const Ready& ready) {
  if (batch_ > 0) {
    const float* gradient = head_->backward(logits_gradient);
    average_pool_backward(blocks_.back().second.convolution.out_map(), gradient,
                          blocks_.back().result.y.data(), batch_);
  } else {
    std::fill_n(head_weight_.gradient, plan_.spec.parameters[plan_.fc_parameter].elements(), 0.0F);
    std::fill_n(head_bias_.gradient, plan_.spec.classes, 0.0F);
  }
  ready(plan_.fc_parameter + 1);
  ready(plan_.fc_parameter);
  Gradient gradient = {blocks_.back().result.y.data(), nullptr};
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    void* input = i > 0          ? blocks_[i - 1].result.y.data()
                  : plan_.pooled ? pooled_.data()
                                 : stem_result_.y.data();
    gradient = reverse_block(blocks_[i], input, input, gradient, ready);
  }
  reverse_stem(gradient, ready);
}

namespace {

/// The parameters of a unit, last first; the weights of the convolution are not among them.
void norm_ready(std::size_t parameter, const std::function<void(std::size_t)>& ready) {
  ready(parameter + 2);
  ready(parameter + 1);
}

}  // namespace

/// `input_gradient` may be where `input` is: it is written last.
ResNet::Gradient ResNet::reverse_block(Block& block, const void* input, void* input_gradient,
                                       const Gradient& gradient,
                                       const std::function<void(std::size_t)>& ready) {
  Unit& first = block.first;
  Unit& second = block.second;
  // The gradient of the sum, which goes to the second unit and past it, replaces the block's result.
  void* sum = block.result.y.data();
  second.norm.backward_sums(
      {second.x.data(), gradient.one, gradient.two, block.result.signs.data<std::uint16_t>()}, sum, batch_);
  norm_ready(second.plan.parameter, ready);
  Gradient past = {nullptr, sum};
  if (block.shortcut) {
    Unit& shortcut = *block.shortcut;
    const BackwardArgs args = {shortcut.x.data(), sum, nullptr, nullptr};
    shortcut.norm.backward_sums(args, nullptr, batch_);
    norm_ready(shortcut.plan.parameter, ready);
    shortcut.norm.backward(args, shortcut.x.data(), batch_);
    shortcut.convolution.backward_weights(input, shortcut.x.data(), batch_);
    shortcut.convolution.backward_data(shortcut.x.data(), batch_, shortcut_gradient_.data());
    ready(shortcut.plan.parameter);
    past.two = shortcut_gradient_.data();
  }
  second.norm.backward({second.x.data(), sum, nullptr, nullptr}, second.x.data(), batch_);
  void* middle = block.middle.y.data();
  second.convolution.backward_weights(middle, second.x.data(), batch_);
  second.convolution.backward_data(second.x.data(), batch_, middle);
  ready(second.plan.parameter);

  const BackwardArgs args = {first.x.data(), middle, nullptr, block.middle.signs.data<std::uint16_t>()};
  first.norm.backward_sums(args, nullptr, batch_);
  norm_ready(first.plan.parameter, ready);
  first.norm.backward(args, first.x.data(), batch_);
  first.convolution.backward_weights(input, first.x.data(), batch_);
  first.convolution.backward_data(first.x.data(), batch_, input_gradient);
  ready(first.plan.parameter);
  past.one = input_gradient;
  return past;
}

void ResNet::reverse_stem(const Gradient& gradient, const std::function<void(std::size_t)>& ready) {
  BackwardArgs args = {stem_.x.data(), gradient.one, gradient.two, stem_result_.signs.data<std::uint16_t>()};
  if (plan_.pooled) {
    max_pool_backward(stem_.convolution.out_map(), gradient.one, gradient.two, winners_.data<std::uint8_t>(),
                      stem_result_.y.data(), batch_);
    args.dy = stem_result_.y.data();
    args.dy2 = nullptr;
  }
  stem_.norm.backward_sums(args, nullptr, batch_);
  norm_ready(stem_.plan.parameter, ready);
  stem_.norm.backward(args, stem_.x.data(), batch_);
  stem_.convolution.backward_weights(images_, stem_.x.data(), batch_);
  ready(stem_.plan.parameter);
}

std::string ResNet::first_not_finite() const {
  if (batch_ == 0) return {};
  const auto name = [&](const Unit& unit) {
    const std::string& weight = plan_.spec.parameters[unit.plan.parameter].name;
    return weight.substr(0, weight.rfind('.'));
  };
  const auto bad = [&](const Unit& unit) {
    return !finite(unit.convolution.out_map(), unit.x.data(), batch_);
  };
  if (bad(stem_)) return name(stem_);
  for (const Block& block : blocks_) {
    if (bad(block.first)) return name(block.first);
    if (bad(block.second)) return name(block.second);
    if (block.shortcut && bad(*block.shortcut)) return name(*block.shortcut);
  }
  return finite(features_.data<float>(), static_cast<std::size_t>(batch_ * plan_.features)) ? "" : "fc";
}

MemoryUse ResNet::memory() const {
  MemoryUse use;
  const auto add = [&](const Unit& unit) {
    use.activations += unit.x.bytes();
    use.workspace += unit.convolution.workspace_bytes();
  };
  const auto add_result = [&](const Activation& a) { use.activations += a.y.bytes() + a.signs.bytes(); };
  add(stem_);
  add_result(stem_result_);
  use.activations += pooled_.bytes() + winners_.bytes() + features_.bytes();
  use.workspace += features_gradient_.bytes() + shortcut_gradient_.bytes();
  for (const Block& block : blocks_) {
    add(block.first);
    add(block.second);
    if (block.shortcut) add(*block.shortcut);
    add_result(block.middle);
    add_result(block.result);
  }
  return use;
}

double ResNet::flops_per_image() const {
  // Forward, gradient of the weights, gradient of the input; the images want none.
  double sum = 2 * stem_.convolution.shape().operations();
  for (const Block& block : blocks_) {
    sum += 3 * (block.first.convolution.shape().operations() + block.second.convolution.shape().operations());
    if (block.shortcut) sum += 3 * block.shortcut->convolution.shape().operations();
  }
  return sum + 6 * static_cast<double>(plan_.features * plan_.spec.classes);
}

}  // namespace muster::nn::cpu
