// SPDX-License-Identifier: Apache-2.0
// Products of matrices in any layout, in 32-bit floats: for those that cuDNN has no plan for.
#pragma once

#include "worker_sdk/nn/gpu/kernels/pack.hpp"

#include <cstdint>

namespace muster::nn::gpu {

/// A batch of matrices in memory: the element in row r and column c of matrix b lies at
/// data[b * batch + r * row + c * column].
struct Matrix {
  const void* data = nullptr;
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t batch = 0;
};

/// result = a * b for each of the batches: a is m x k, b is k x n. Rows of the result are `row` elements
/// apart, and its columns lie side by side. Each thread has 4 x 4 of its elements and adds up in the order
/// of k, so the result does not depend on the device.
template <typename T, typename Result>
struct MultiplyMatrices {
  static constexpr int kOwn = 4;
  static constexpr int kLanes = 16;
  static constexpr int kTile = kOwn * kLanes;
  static_assert(kLanes * kLanes == kBlockThreads);

  std::int64_t batches;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  Matrix a;
  Matrix b;
  Result* result;
  std::int64_t result_row;
  std::int64_t result_batch;

  static constexpr std::int64_t tiles(std::int64_t extent) { return (extent + kTile - 1) / kTile; }

  constexpr int blocks() const { return static_cast<int>(batches * tiles(m) * tiles(n)); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t per_batch = tiles(m) * tiles(n);
    const std::int64_t batch = place.block / per_batch;
    const std::int64_t tile = place.block % per_batch;
    // Rows and columns behind the end are those of the last one, and not written.
    const T* rows[kOwn];
    const T* columns[kOwn];
    for (int i = 0; i < kOwn; ++i) {
      const std::int64_t row = first_row(tile, place) + i * kLanes;
      const std::int64_t column = first_column(tile, place) + i * kLanes;
      rows[i] = static_cast<const T*>(a.data) + batch * a.batch + (row < m ? row : m - 1) * a.row;
      columns[i] = static_cast<const T*>(b.data) + batch * b.batch + (column < n ? column : n - 1) * b.column;
    }
    float sums[kOwn][kOwn] = {};
    for (std::int64_t i = 0; i < k; ++i) {
      float left[kOwn];
      float right[kOwn];
      for (int j = 0; j < kOwn; ++j) left[j] = to_float(rows[j][i * a.column]);
      for (int j = 0; j < kOwn; ++j) right[j] = to_float(columns[j][i * b.row]);
      for (int r = 0; r < kOwn; ++r)
        for (int c = 0; c < kOwn; ++c) sums[r][c] += left[r] * right[c];
    }
    Result* const to = result + batch * result_batch;
    for (int r = 0; r < kOwn; ++r)
      for (int c = 0; c < kOwn; ++c) {
        const std::int64_t row = first_row(tile, place) + r * kLanes;
        const std::int64_t column = first_column(tile, place) + c * kLanes;
        if (row < m && column < n) to[row * result_row + column] = from_float<Result>(sums[r][c]);
      }
  }

 private:
  MUSTER_HD std::int64_t first_row(std::int64_t tile, const Place& place) const {
    return tile / tiles(n) * kTile + place.thread / kLanes;
  }

  MUSTER_HD std::int64_t first_column(std::int64_t tile, const Place& place) const {
    return tile % tiles(n) * kTile + place.thread % kLanes;
  }
};

}  // namespace muster::nn::gpu
