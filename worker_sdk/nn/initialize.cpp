// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/initialize.hpp"

#include "rendezvous/base/philox.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster::nn {
namespace {

/// Keeps these streams apart from those of other users of the same seed.
constexpr std::uint64_t kParameterStreams = std::uint64_t{0x4E} << 56;

void fill_uniform(RandomStream& random, float bound, float* values, std::size_t count) {
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
  for (std::size_t i = 0; i < spec.parameters.size(); ++i) {
    const FirstValues& first = spec.first_values[i];
    const std::size_t count = spec.parameters[i].elements();
    float* values = slots[i].value;
    if (values == nullptr) continue;
    RandomStream random(seed, kParameterStreams | i);
    switch (first.kind) {
      case FirstValues::Kind::constant:
        std::fill_n(values, count, static_cast<float>(first.scale));
        break;
      case FirstValues::Kind::uniform:
        fill_uniform(random, static_cast<float>(first.scale), values, count);
        break;
      case FirstValues::Kind::normal:
        fill_normal(random, first.scale, values, count);
        break;
    }
  }
}

void initialize_buffers(const ModelSpec& spec, std::span<float* const> buffers) {
  for (std::size_t i = 0; i < spec.buffers.size(); ++i)
    std::fill_n(buffers[i], spec.buffers[i].elements(),
                spec.buffers[i].name.ends_with("running_var") ? 1.0F : 0.0F);
}

}  // namespace muster::nn
