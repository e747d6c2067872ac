// SPDX-License-Identifier: Apache-2.0
#include "muster/error.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/gpu/network/layers.hpp"
#include "worker_sdk/nn/models/list_network.hpp"
#include "worker_sdk/nn/segments.hpp"

#include <bit>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace muster::nn::gpu {
namespace {

bool map_kernels_take(std::int64_t width) {
  return width >= kPack && width <= kMostChannels && std::has_single_bit(static_cast<std::uint64_t>(width));
}

/// Makes two steps of a linear layer with ReLU whose width the kernels of maps do not take (Hidden).
void split_hidden(std::vector<PlannedStep>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    split_hidden(steps[i].body);
    split_hidden(steps[i].shortcut);
    if (steps[i].kind != StepKind::hidden || map_kernels_take(steps[i].out.width)) continue;
    PlannedStep relu = steps[i];
    relu.kind = StepKind::relu;
    relu.in = relu.out;
    relu.parameters = 0;
    relu.in_place = true;
    steps[i].kind = StepKind::linear;
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(++i), std::move(relu));
  }
}

std::string objection(const PlannedStep& step) {
  if (step.kind == StepKind::head && step.out.width > kMostChannels)
    return "tells " + std::to_string(step.out.width) + " classes apart; on a GPU a network does at most " +
           std::to_string(kMostChannels);
  if (step.out.kind != ValueShape::Kind::map) return "";
  const std::int64_t channels = step.out.channels;
  const bool plain = step.kind == StepKind::convolution;
  if (plain ? channels % kPack == 0 : map_kernels_take(channels)) return "";
  return "makes maps of " + std::to_string(channels) + " channels; on a GPU give " +
         (plain ? "a multiple of 8" : "a power of two from 8 to " + std::to_string(kMostChannels));
}

}  // namespace

std::unique_ptr<Network> make_device_network(const Description& description, Precision precision,
                                             std::int64_t capacity, Ops& ops, DeviceSum sum,
                                             const ActivationCheckpoints& checkpoints) {
  Plan plan = plan_of(description);
  split_hidden(plan.steps);
  check_steps(plan, objection);
  set_segments(plan, checkpoints);
  const RoomOptions options = {ops, capacity, precision, std::move(sum)};
  if (precision == Precision::bf16)
    return std::make_unique<ListNetwork<Layers<Bf16>>>(std::move(plan), options);
  if (precision == Precision::f16)
    return std::make_unique<ListNetwork<Layers<F16>>>(std::move(plan), options);
  return std::make_unique<ListNetwork<Layers<float>>>(std::move(plan), options);
}

std::unique_ptr<Network> make_device_network(std::string_view model, Precision precision,
                                             std::int64_t classes, std::int64_t capacity, Ops& ops,
                                             DeviceSum sum, const ActivationCheckpoints& checkpoints) {
  return make_device_network(built_in(model, classes), precision, capacity, ops, std::move(sum), checkpoints);
}

}  // namespace muster::nn::gpu
