// SPDX-License-Identifier: Apache-2.0
// Computes the square of a gradient's norm, in a fixed order. Pure.
#pragma once

#include <array>
#include <cstddef>

namespace muster::parallel {

/// The sum of squares of a NormBlock, in f64, in eight interleaved sums: a fixed order, so the bits do not
/// depend on who computes it, nor in how many pieces.
class LaneSums {
 public:
  static constexpr std::size_t kLanes = 8;

  LaneSums() = default;

  explicit LaneSums(const double* sums) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums_[lane] = sums[lane];
  }

  /// Adds the next floats of the block. All pieces but the last must be a multiple of kLanes long.
  void add(const float* values, std::size_t count) {
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const double value = values[i + lane];
        sums_[lane] += value * value;
      }
    for (; i < count; ++i) sums_[i % kLanes] += static_cast<double>(values[i]) * values[i];
  }

  const std::array<double, kLanes>& sums() const { return sums_; }

  double total() const {
    return ((sums_[0] + sums_[1]) + (sums_[2] + sums_[3])) + ((sums_[4] + sums_[5]) + (sums_[6] + sums_[7]));
  }

 private:
  std::array<double, kLanes> sums_ = {};
};

}  // namespace muster::parallel
