// SPDX-License-Identifier: Apache-2.0
// Random maps in the types of the kernels, and comparing them with doubles.
#pragma once

#include "tests/unit/worker_sdk/nn/reference.hpp"
#include "worker_sdk/nn/gpu/kernels/pack.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::test {

inline std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Random values in [-1, 1) * `size` + `offset`, rounded to T.
template <typename T>
std::vector<T> random_map(std::size_t count, std::uint64_t stream, float size = 1, float offset = 0) {
  std::vector<T> result;
  for (const float value : random_floats(count, stream))
    result.push_back(nn::gpu::from_float<T>(value * size + offset));
  return result;
}

template <typename T>
Doubles doubles(const std::vector<T>& values) {
  Doubles result;
  for (const T value : values) result.push_back(static_cast<double>(nn::gpu::to_float(value)));
  return result;
}

/// The largest error of rounding to T, as a share of the value.
template <typename T>
constexpr double rounding() {
  return sizeof(T) == sizeof(float) ? 0x1p-24 : 0x1p-8;
}

/// Images x 32 x 32 x 3 floats, widened to the eight channels that the kernels read.
template <typename T>
void widen_images(const std::vector<float>& images, T* out) {
  for (std::size_t i = 0; i < images.size() / 3 * nn::gpu::kPack; ++i) {
    const std::size_t channel = i % nn::gpu::kPack;
    out[i] = nn::gpu::from_float<T>(channel < 3 ? images[i / nn::gpu::kPack * 3 + channel] : 0.0F);
  }
}

/// The largest error of `got`, as a share of the largest of `wanted`.
template <typename T>
double relative_error(const Doubles& wanted, const std::vector<T>& got) {
  double size = 1e-30;
  for (const double value : wanted) size = std::max(size, std::abs(value));
  return distance(wanted, doubles(got)) / size;
}

}  // namespace muster::test
