// SPDX-License-Identifier: Apache-2.0
// Between the weights that leave the process (32-bit floats, out x in x height x width) and those that
// convolutions read (out x height x width x in, in the type of the maps, inputs and outputs padded with
// zeros). A linear layer is a convolution of 1 x 1.
#pragma once

#include "worker_sdk/nn/gpu/kernels/pack.hpp"

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

  /// Pairs of an output and an input, padding included: one thread has all pixels of one, which lie side by
  /// side in the canonical order, while its neighbours have the neighbouring inputs of the padded order.
  constexpr std::int64_t pairs() const { return std::int64_t{padded_out} * padded_in; }
};

/// A pair in both orders.
struct WeightPlace {
  std::int64_t canonical = 0;  ///< its first pixel; the next ones follow
  std::int64_t padded = 0;     ///< its first pixel; the next ones are padded_in apart
  bool exists = false;         ///< not padding

  MUSTER_HD WeightPlace(const WeightShape& shape, std::int64_t pair) {
    const std::int64_t out = pair / shape.padded_in;
    const std::int64_t in = pair % shape.padded_in;
    canonical = (out * shape.in + in) * shape.pixels;
    padded = out * shape.pixels * shape.padded_in + in;
    exists = out < shape.out && in < shape.in;
  }
};

template <typename T>
struct PackWeights {
  WeightShape shape;
  const float* from;
  T* to;

  constexpr int blocks() const { return blocks_for(shape.pairs()); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    if (number_of(place) >= shape.pairs()) return;
    const WeightPlace at(shape, number_of(place));
    for (std::int64_t pixel = 0; pixel < shape.pixels; ++pixel)
      to[at.padded + pixel * shape.padded_in] = from_float<T>(at.exists ? from[at.canonical + pixel] : 0.0F);
  }
};

template <typename T>
struct UnpackGradient {
  WeightShape shape;
  const T* from;
  float* to;

  constexpr int blocks() const { return blocks_for(shape.pairs()); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    if (number_of(place) >= shape.pairs()) return;
    const WeightPlace at(shape, number_of(place));
    for (std::int64_t pixel = 0; at.exists && pixel < shape.pixels; ++pixel)
      to[at.canonical + pixel] = to_float(from[at.padded + pixel * shape.padded_in]);
  }
};

}  // namespace muster::nn::gpu
