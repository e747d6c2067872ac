// SPDX-License-Identifier: Apache-2.0
// Between the weights that leave the process (32-bit floats, out x in x height x width) and those that
// convolutions read (out x height x width x in, in the type of the maps, inputs and outputs padded with
// zeros). A linear layer is a convolution of 1 x 1; one that reads a flattened map, a convolution of the
// map's size.
#pragma once

#include "worker_sdk/trainer/nn/gpu/kernels/pack.hpp"

#include <cstdint>

namespace muster::nn::gpu {

struct WeightShape {
  int out = 0;
  int in = 0;
  int pixels = 1;  ///< height * width
  int padded_out = 0;
  int padded_in = 0;

  constexpr std::int64_t elements() const { return std::int64_t{out} * in * pixels; }

  constexpr std::int64_t padded_elements() const { return std::int64_t{padded_out} * padded_in * pixels; }

  /// The place in the canonical order of element `i` of the padded order; -1: padding.
  MUSTER_HD std::int64_t canonical(std::int64_t i) const {
    const auto channel = static_cast<int>(i % padded_in);
    const auto pixel = static_cast<int>(i / padded_in % pixels);
    const auto o = static_cast<int>(i / padded_in / pixels);
    if (channel >= in || o >= out) return -1;
    return (std::int64_t{o} * in + channel) * pixels + pixel;
  }
};

template <typename T>
struct PackWeights {
  WeightShape shape;
  const float* from;
  T* to;

  constexpr int blocks() const { return blocks_for(shape.padded_elements()); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = number_of(place);
    if (i >= shape.padded_elements()) return;
    const std::int64_t at = shape.canonical(i);
    to[i] = from_float<T>(at < 0 ? 0.0F : from[at]);
  }
};

template <typename T>
struct UnpackGradient {
  WeightShape shape;
  const T* from;
  float* to;

  constexpr int blocks() const { return blocks_for(shape.padded_elements()); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = number_of(place);
    if (i >= shape.padded_elements()) return;
    const std::int64_t at = shape.canonical(i);
    if (at >= 0) to[at] = to_float(from[i]);
  }
};

}  // namespace muster::nn::gpu
