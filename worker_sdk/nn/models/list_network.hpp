// SPDX-License-Identifier: Apache-2.0
// A network over a set of layers: the steps of its plan.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/nn/models/edge_steps.hpp"
#include "worker_sdk/nn/models/map_steps.hpp"
#include "worker_sdk/nn/models/row_steps.hpp"
#include "worker_sdk/nn/models/segments.hpp"
#include "worker_sdk/nn/segments.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

namespace muster::nn {

/// Whether none of them is an infinity or not a number. Elements of two bytes are of the precision, others
/// floats.
inline bool all_finite(const void* values, std::size_t count, std::size_t element_bytes,
                       Precision precision) {
  if (element_bytes == sizeof(float)) {
    const auto* floats = static_cast<const float*>(values);
    return std::all_of(floats, floats + count, [](float v) { return std::isfinite(v); });
  }
  // An exponent of all ones is an infinity or not a number.
  const auto* bits = static_cast<const std::uint16_t*>(values);
  const std::uint16_t ones = precision == Precision::f16 ? 0x7C00U : 0x7F80U;
  return std::all_of(bits, bits + count, [ones](std::uint16_t b) { return (b & ones) != ones; });
}

template <LayerSet Layers>
std::unique_ptr<Step> make_step(const Shared<Layers>& shared, const PlannedStep& step, const Step* previous);

/// The steps of a list, each with the memory that it takes in `memory`, where that is not null.
template <LayerSet Layers>
Chain<Layers> make_chain(const Shared<Layers>& shared, std::span<const PlannedStep> steps,
                         std::vector<StepMemory>* memory = nullptr) {
  Chain<Layers> chain(shared);
  for (const PlannedStep& step : steps) {
    const std::size_t before = shared.room.bytes_per_sample(&MemoryUse::activations);
    chain.add(make_step(shared, step, chain.last()), step.reads_result());
    const std::size_t after = shared.room.bytes_per_sample(&MemoryUse::activations);
    if (memory != nullptr) memory->push_back({step.name, after - before});
  }
  return chain;
}

template <LayerSet Layers>
std::unique_ptr<Step> make_row_step(const Shared<Layers>& shared, const PlannedStep& step,
                                    const Step* previous) {
  switch (step.kind) {
    case StepKind::convolution:
      return std::make_unique<ConvolutionStep<Layers>>(shared.room, step);
    case StepKind::flatten:
      return std::make_unique<MapToRowsStep<Layers, typename Layers::Flatten>>(shared, step);
    case StepKind::tokens:
      return std::make_unique<MapToRowsStep<Layers, typename Layers::Tokens>>(shared, step);
    case StepKind::grey:
      return std::make_unique<GreyStep<Layers>>(shared, step);
    case StepKind::linear:
      return std::make_unique<LinearStep<Layers>>(shared, step);
    case StepKind::relu:
      return std::make_unique<PlainStep<Layers, typename Layers::Relu, Needs::result>>(
          shared, step, previous, step.in.tokens, step.in.width);
    case StepKind::gelu:
      return std::make_unique<PlainStep<Layers, typename Layers::Gelu, Needs::input>>(
          shared, step, nullptr, step.in.tokens, step.in.width);
    case StepKind::layer_norm:
      return std::make_unique<LayerNormStep<Layers>>(shared, step);
    case StepKind::attention:
      return std::make_unique<PlainStep<Layers, typename Layers::Attention, Needs::input, Counts::samples>>(
          shared, step, nullptr, step.out.tokens, step.out.width, step.heads);
    case StepKind::positions:
      return std::make_unique<PositionsStep<Layers>>(shared, step, previous);
    case StepKind::token_mean:
      return std::make_unique<PlainStep<Layers, typename Layers::TokenMean, Needs::nothing, Counts::samples>>(
          shared, step, nullptr, step.in.tokens, step.in.width);
    case StepKind::residual_rows:
      return std::make_unique<ResidualRowsStep<Layers>>(
          shared, step, make_chain(shared, std::span<const PlannedStep>(step.body)),
          make_chain(shared, std::span<const PlannedStep>(step.shortcut)));
    case StepKind::embedding:
      return std::make_unique<EmbeddingStep<Layers>>(shared, step);
    default:
      return std::make_unique<DropoutStep<Layers>>(shared, step, previous);
  }
}

/// Steps of maps, and those of rows that every set of layers has.
template <LayerSet Layers>
std::unique_ptr<Step> make_step(const Shared<Layers>& shared, const PlannedStep& step, const Step* previous) {
  switch (step.kind) {
    case StepKind::convolution_norm:
      return std::make_unique<ConvolutionNormStep<Layers>>(shared.room, step);
    case StepKind::residual_maps: {
      const std::span<const PlannedStep> body = step.body;
      return std::make_unique<ResidualMapsStep<Layers>>(shared, step,
                                                        make_chain(shared, body.first(body.size() - 1)));
    }
    case StepKind::convolution_pool:
      return std::make_unique<ConvolutionPoolStep<Layers>>(shared.room, step);
    case StepKind::max_pool:
      return std::make_unique<MaxPoolStep<Layers>>(shared.room, step);
    case StepKind::average_pool:
      return std::make_unique<MapToRowsStep<Layers, typename Layers::AveragePool>>(shared, step);
    case StepKind::hidden:
      return std::make_unique<HiddenStep<Layers>>(shared, step);
    case StepKind::head:
      return std::make_unique<HeadStep<Layers>>(shared, step);
    default:
      if constexpr (RowLayerSet<Layers>)
        return make_row_step(shared, step, previous);
      else
        throw Error(ErrorCode::unsupported, "layer " + step.name + " has no step");
  }
}

/// Bytes of a value for an image.
template <LayerSet Layers>
std::size_t bytes_of(const typename Layers::Room& room, const ValueShape& shape) {
  return shape.kind == ValueShape::Kind::map ? room.map_bytes(shape.extent())
                                             : shape.elements() * sizeof(typename Layers::Feature);
}

/// The steps of a plan in its segments. `memory` gets what each step holds.
template <LayerSet Layers>
Segments<Layers> make_segments(const Shared<Layers>& shared, const Plan& plan,
                               std::vector<StepMemory>& memory) {
  const std::span<const PlannedStep> steps = plan.steps;
  const std::size_t count = plan.segments.size();
  Segments<Layers> segments(shared.room);
  std::vector<std::size_t> read;
  std::size_t unit = 0;
  for (const std::size_t first : plan.segments) {
    read.push_back(first > 0 ? bytes_of<Layers>(shared.room, steps[first].in) : 0);
    segments.add_input(read.back());
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = plan.segments[i];
    const std::size_t end = i + 1 < count ? plan.segments[i + 1] : steps.size();
    if (count > 1) shared.room.begin_segment();
    Chain<Layers> chain = make_chain(shared, steps.subspan(first, end - first), &memory);
    for (std::size_t step = first; step < end; ++step) {
      if (steps[step].parameters == 0) continue;
      const std::size_t units = units_of(steps[step], step).size();
      if (units == 1)
        chain.set_unit(step - first, unit);
      else
        chain[step - first].set_units(unit);
      unit += units;
    }
    segments.add(std::move(chain));
  }
  shared.room.end_segments();
  memory = share_memory(std::move(memory), plan.segments, read);
  return segments;
}

/// backward() keeps no values of its own: the gradient of a value is written where the value was, once nobody
/// reads it any more.
template <LayerSet Layers>
class ListNetwork final : public Network {
 public:
  ListNetwork(Plan plan, const typename Layers::Options& options)
      : plan_(std::move(plan)),
        room_(options),
        shared_(room_, plan_),
        segments_(make_segments(shared_, plan_, memory_)),
        first_trained_(first_trained(plan_.steps)) {}

  const ModelSpec& spec() const override { return plan_.spec; }

  SampleFormat sample_format() const override { return room_.sample_format(plan_.input); }

  MemoryUse memory() const override { return room_.memory(); }

  MemoryUse memory_for(std::span<const BatchSize> batches) const override {
    return room_.memory_for(batches);
  }

  std::vector<StepMemory> memory_by_step() const override { return memory_; }

  double flops_per_sample() const override { return plan_.flops_per_sample(); }

  void bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) override {
    const ModelSpec& spec = plan_.spec;
    if (parameters.size() != spec.parameters.size() || buffers.size() != spec.buffers.size())
      throw Error(ErrorCode::invalid_argument, spec.name + " has " + std::to_string(spec.parameters.size()) +
                                                   " parameters and " + std::to_string(spec.buffers.size()) +
                                                   " buffers, but " + std::to_string(parameters.size()) +
                                                   " and " + std::to_string(buffers.size()) +
                                                   " were bound; pass one place for each entry of spec()");
    slots_.assign(parameters.begin(), parameters.end());
    segments_.bind(parameters, buffers);
  }

  const std::vector<ParameterUnit>& units() const override { return plan_.units; }

  void set_unit_user(UnitUser* user) override {
    user_ = user;
    segments_.set_unit_user(user);
  }

  void parameters_changed() override { segments_.weights_changed(); }

  void set_draws(const DropoutKey& draws) override {
    pass_.draws = draws;
    room_.set_dropout_key(draws);
  }

  const float* forward(const void* images, std::int64_t batch, Mode mode) override {
    room_.begin(batch);
    images_ = images;
    pass_.batch = batch;
    pass_.mode = mode;
    if (user_ != nullptr) user_->begin_pass(mode == Mode::train);
    const void* const logits = segments_.forward(images, pass_);
    return batch > 0 ? static_cast<const float*>(logits) : nullptr;
  }

  /// Without samples the steps are gone through nevertheless: other ranks wait for what their norms exchange.
  void backward(const float* logits_gradient, const Ready& ready) override {
    const Ready cleared = [&](std::size_t i) {
      room_.clear(slots_[i].gradient, plan_.spec.parameters[i].elements() * sizeof(float));
      ready(i);
    };
    segments_.backward({logits_gradient, nullptr}, images_, pass_, pass_.batch == 0 ? cleared : ready,
                       first_trained_);
  }

  std::string first_not_finite() override {
    // To compute segments again would take calls of all ranks, of which perhaps one alone asks.
    if (plan_.segments.size() > 1 && user_ != nullptr && user_->takes_values_away()) return "";
    std::string name;
    std::vector<char> copy;
    const Watch watch = [&](const WatchedResult& result) {
      if (!name.empty()) return;
      const std::size_t count = static_cast<std::size_t>(pass_.batch) * result.per_image;
      const void* const values = room_.on_host(result.data, count * result.element_bytes, copy);
      if (!all_finite(values, count, result.element_bytes, room_.precision())) name = result.layer;
    };
    segments_.each_result(watch, images_, pass_);
    return name;
  }

 private:
  const Plan plan_;
  typename Layers::Room room_;
  const Shared<Layers> shared_;
  std::vector<StepMemory> memory_;
  Segments<Layers> segments_;
  const std::size_t first_trained_;
  std::vector<ParameterSlot> slots_;
  UnitUser* user_ = nullptr;
  const void* images_ = nullptr;
  Pass pass_;
};

}  // namespace muster::nn
