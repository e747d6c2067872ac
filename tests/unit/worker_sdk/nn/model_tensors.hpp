// SPDX-License-Identifier: Apache-2.0
// The memory that a network trains on, and how far two results are apart.
#pragma once

#include "worker_sdk/nn/initialize.hpp"
#include "worker_sdk/nn/network.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

namespace muster::test {

/// Parameters, gradients and buffers of a model, with the first values that `seed` gives. The gradients begin
/// as 1e30, so that one which is added to, or not written, shows.
struct ModelTensors {
  explicit ModelTensors(const nn::ModelSpec& model, std::uint64_t seed) : spec(model) {
    for (const ParameterSpec& parameter : spec.parameters) {
      values.emplace_back(parameter.elements());
      gradients.emplace_back(parameter.elements(), 1e30F);
    }
    for (const ParameterSpec& buffer : spec.buffers) buffers.emplace_back(buffer.elements());
    for (std::size_t i = 0; i < values.size(); ++i) slots.push_back({values[i].data(), gradients[i].data()});
    for (auto& buffer : buffers) places.push_back(buffer.data());
    nn::initialize(spec, slots, seed);
    nn::initialize_buffers(spec, places);
  }

  ModelTensors(const ModelTensors&) = delete;
  ModelTensors& operator=(const ModelTensors&) = delete;

  nn::ModelSpec spec;
  std::vector<std::vector<float>> values, gradients, buffers;
  std::vector<nn::ParameterSlot> slots;
  std::vector<float*> places;
};

/// Length of the difference as a share of the length of `wanted`; infinite where it is no number.
inline double apart(const std::vector<float>& wanted, const std::vector<float>& got) {
  double difference = 0;
  double length = 1e-30;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference += std::pow(static_cast<double>(wanted[i]) - static_cast<double>(got[i]), 2);
    length += std::pow(static_cast<double>(wanted[i]), 2);
  }
  const double result = std::sqrt(difference / length);
  return std::isfinite(result) ? result : HUGE_VAL;
}

}  // namespace muster::test
