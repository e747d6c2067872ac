// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/philox.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster::nn {
namespace {

/// Keeps these streams apart from those of other users of the same seed.
constexpr std::uint64_t kParameterStreams = std::uint64_t{0x4E} << 56;

/// The number of inputs that each unit of a weight has.
std::size_t inputs_of(const ParameterSpec& weight) {
  return weight.elements() / static_cast<std::size_t>(weight.shape[0]);
}

void fill_uniform(RandomStream& random, std::size_t inputs, float* values, std::size_t count) {
  const float bound = 1.0F / std::sqrt(static_cast<float>(inputs));
  for (std::size_t k = 0; k < count; ++k) values[k] = (2.0F * random.unit() - 1.0F) * bound;
}

/// Normal numbers of the given deviation, in pairs: Box and Muller, 1958.
void fill_normal(RandomStream& random, double deviation, float* values, std::size_t count) {
  for (std::size_t k = 0; k < count; k += 2) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(random.unit())));
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(random.unit());
    values[k] = static_cast<float>(deviation * radius * std::cos(angle));
    if (k + 1 < count) values[k + 1] = static_cast<float>(deviation * radius * std::sin(angle));
  }
}

}  // namespace

void initialize(const ModelSpec& spec, std::span<const ParameterSlot> slots, std::uint64_t seed) {
  const bool small = spec.buffers.empty();  // no batch norm: PyTorch's defaults hold for every layer
  for (std::size_t i = 0; i < spec.parameters.size(); ++i) {
    const ParameterSpec& parameter = spec.parameters[i];
    const std::size_t count = parameter.elements();
    float* values = slots[i].value;
    RandomStream random(seed, kParameterStreams | i);
    if (parameter.shape.size() == 4 && !small) {
      const auto fan_out = static_cast<double>(parameter.shape[0] * parameter.shape[2] * parameter.shape[3]);
      fill_normal(random, std::sqrt(2.0 / fan_out), values, count);
    } else if (parameter.shape.size() >= 2) {
      fill_uniform(random, inputs_of(parameter), values, count);
    } else if (spec.parameters[i - 1].shape.size() >= 2 && (small || parameter.name == "fc.bias")) {
      fill_uniform(random, inputs_of(spec.parameters[i - 1]), values, count);
    } else {
      std::fill_n(values, count, parameter.name.ends_with(".weight") ? 1.0F : 0.0F);
    }
  }
}

void initialize_buffers(const ModelSpec& spec, std::span<float* const> buffers) {
  for (std::size_t i = 0; i < spec.buffers.size(); ++i)
    std::fill_n(buffers[i], spec.buffers[i].elements(),
                spec.buffers[i].name.ends_with("running_var") ? 1.0F : 0.0F);
}

}  // namespace muster::nn
