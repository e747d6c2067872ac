// SPDX-License-Identifier: Apache-2.0
// What follows from a list of layers, whatever it is computed on: shapes, tensors, and the steps that the
// sets of layers (layers.hpp, row_layers.hpp) compute in one go. Pure.
#pragma once

#include "worker_sdk/nn/description.hpp"
#include "worker_sdk/nn/layers.hpp"
#include "worker_sdk/nn/network.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace muster::nn {

/// What a layer reads or writes for one sample.
struct ValueShape {
  enum class Kind : std::uint8_t {
    images,  ///< as the caller gives them
    map,     ///< channels of side x side pixels, as the set of layers keeps them
    rows,    ///< `tokens` rows of `width` values
    ids,     ///< `tokens` numbers
  };

  Kind kind = Kind::images;
  std::int64_t channels = 0;
  std::int64_t side = 0;
  std::int64_t tokens = 0;
  std::int64_t width = 0;

  static ValueShape map(const MapExtent& extent) { return {Kind::map, extent.channels, extent.side, 0, 0}; }

  static ValueShape rows(std::int64_t tokens, std::int64_t width) {
    return {Kind::rows, 0, 0, tokens, width};
  }

  MapExtent extent() const { return {channels, side}; }

  /// Of images, maps and rows.
  std::size_t elements() const {
    return static_cast<std::size_t>(kind == Kind::rows ? tokens * width : channels * side * side);
  }

  bool operator==(const ValueShape&) const = default;
};

/// For errors: "maps of 64 x 8 x 8", "16 rows of 192".
std::string to_text(const ValueShape& shape);

/// What is computed in one go. The tensors of a step stand one after the other in the ModelSpec.
enum class StepKind : std::uint8_t {
  convolution_norm,  ///< convolution, batch norm, ReLU; in a body that ends without ReLU: its last step
  residual_maps,     ///< body and shortcut of convolution_norm steps, sum, ReLU
  convolution_pool,  ///< convolution, bias, ReLU, maximum over windows of 2 x 2
  convolution,       ///< convolution, bias where it has one
  max_pool,          ///< over windows of 3 x 3 at stride 2
  average_pool,
  flatten,
  tokens,
  grey,
  linear,
  hidden,  ///< linear, ReLU
  relu,
  gelu,
  layer_norm,
  attention,  ///< without its projections, which are linear steps
  positions,
  token_mean,
  residual_rows,  ///< body, shortcut, sum
  embedding,
  dropout,
  head,  ///< the last linear layer
};

struct PlannedStep {
  StepKind kind = StepKind::linear;
  std::string name;  ///< of its first layer
  ValueShape in;
  ValueShape out;
  std::size_t parameter = 0;   ///< number of its first one
  std::size_t parameters = 0;  ///< with those of body and shortcut
  std::size_t buffer = 0;      ///< number of the first one
  ConvolutionSize convolution;
  PooledTo pooled_to = PooledTo::map;
  bool bias = false;
  bool in_place =
      false;  ///< the result is written where the input is (residual_rows: where that of the body is)
  std::int64_t heads = 0;
  std::int64_t vocabulary = 0;
  double share = 0;
  std::uint32_t number = 0;  ///< of a dropout layer, from 0
  /// residual_maps: the gradient of the sum is written to the memory for shortcuts instead of where the
  /// result is, because the step begins a segment: it outlives what the segment holds.
  bool sum_aside = false;
  std::vector<PlannedStep> body;
  std::vector<PlannedStep> shortcut;

  /// Whether backward reads the result, so that no gradient may be written there before.
  bool reads_result() const { return kind == StepKind::relu || kind == StepKind::hidden; }

  /// Floating-point operations of forward for a sample, as Network::flops_per_sample() counts.
  double operations() const;
};

struct Plan {
  ModelSpec spec;
  Input input;
  Loss loss = Loss::cross_entropy;
  std::vector<PlannedStep> steps;
  /// The first step of each segment (ActivationCheckpoints), ascending from 0.
  std::vector<std::size_t> segments = {0};
  /// In the order of forward; together all parameters.
  std::vector<ParameterUnit> units;
  /// The largest maps that the shortcut of a residual_maps step reads, or one with sum_aside; 0 channels:
  /// there is none.
  MapExtent largest_shortcut;
  /// The most elements that the gradient of a result has for which reads_result() holds.
  std::size_t kept_result = 0;

  double flops_per_sample() const;
};

/// The units of a step with parameters: the step itself, but of a residual_maps step each step of the body
/// ahead of the last one, and then that one with the shortcut, which are used together. `number` is the
/// step's.
std::vector<ParameterUnit> units_of(const PlannedStep& step, std::size_t number);

/// Checks that each layer can read what the one ahead of it gives, and that sets of layers have what is asked
/// for. Throws Error (invalid_argument), naming the layer, what it gets and what it needs.
Plan plan_of(const Description& description);

/// Calls visit(step) for all steps in order, each behind those of its body and its shortcut.
void each_step(const std::vector<PlannedStep>& steps, const std::function<void(const PlannedStep&)>& visit);

/// Throws Error (unsupported) for the first step to which there is an objection: layer "conv1" of network "x"
/// `objection(step)`.
void check_steps(const Plan& plan, const std::function<std::string(const PlannedStep&)>& objection);

/// The first step with parameters: the gradient of what it reads is not wanted.
std::size_t first_trained(const std::vector<PlannedStep>& steps);

}  // namespace muster::nn
