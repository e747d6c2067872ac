// SPDX-License-Identifier: Apache-2.0
// What a layer of rows needs to be tested alone, on a device of the host's.
#pragma once

#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "tests/unit/worker_sdk/nn/gpu/values.hpp"
#include "worker_sdk/nn/gpu/network/layers.hpp"

#include <vector>

namespace muster::nn::gpu {

using test::at;

template <typename T>
constexpr Precision precision_of() {
  constexpr Precision kPrecisions[] = {Precision::f32, Precision::bf16, Precision::f16};
  return kPrecisions[static_cast<int>(element_of<T>())];
}

template <typename T>
struct Device {
  HostOps ops;
  Room room{RoomOptions{ops, 8, precision_of<T>(), {}}};
};

/// A parameter and its gradient.
struct Parameter {
  Parameter(std::int64_t count, std::uint64_t stream, float size = 1, float offset = 0)
      : values(test::random_map<float>(at(count), stream, size, offset)), gradients(at(count), 1e30F) {}

  ParameterSlot slot() {
    ParameterSlot result;
    result.value = values.data();
    result.gradient = gradients.data();
    return result;
  }

  std::vector<float> values;
  std::vector<float> gradients;
};

/// Errors of differences, of sums in 32 bits, and of `roundings` to T.
template <typename T>
double bound(double roundings = 2) {
  return 1e-5 + roundings * test::rounding<T>();
}

}  // namespace muster::nn::gpu
