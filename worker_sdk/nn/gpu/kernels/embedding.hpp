// SPDX-License-Identifier: Apache-2.0
// Rows of a table by their numbers, and the gradient of the table.
#pragma once

#include "worker_sdk/nn/gpu/kernels/rows.hpp"

#include <cstdint>
#include <limits>

namespace muster::nn::gpu {

/// A table of `vocabulary` rows, and the numbers of those that are wanted.
struct EmbeddingShape {
  std::int64_t rows = 0;  ///< numbers
  std::int64_t vocabulary = 0;
  int width = 0;

  constexpr int packs() const { return (width + kPack - 1) / kPack; }
};

/// y[r] = table[ids[r]]. A number that is none of the vocabulary gives a row of what is not a number, so that
/// the loss shows it.
template <typename T>
struct EmbeddingForward {
  EmbeddingShape shape;
  const std::int32_t* ids;
  const float* table;
  T* y;

  constexpr int blocks() const { return blocks_for(shape.rows * shape.packs()); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t row = number_of(place) / shape.packs();
    const auto column = static_cast<int>(number_of(place) % shape.packs()) * kPack;
    if (row >= shape.rows) return;
    const std::int64_t id = ids[row];
    if (shape.width % kPack == 0) return copy<true>(row, id, column);
    copy<false>(row, id, column);
  }

 private:
  template <bool kWhole>
  MUSTER_HD void copy(std::int64_t row, std::int64_t id, int column) const {
    Floats value;
    if (id >= 0 && id < shape.vocabulary)
      value = load_part<kWhole>(table + id * shape.width, shape.width, column);
    else
      for (int i = 0; i < kPack; ++i) value.v[i] = std::numeric_limits<float>::quiet_NaN();
    store_part<kWhole>(y + row * shape.width, shape.width, column, value);
  }
};

/// gradient[v] = sum of dy[r] for which ids[r] is v, added in the order of the rows: one thread has eight
/// columns of a row of the table, and looks at all numbers.
template <typename T>
struct EmbeddingBackward {
  EmbeddingShape shape;
  const std::int32_t* ids;
  const T* dy;
  float* gradient;

  constexpr int blocks() const { return blocks_for(shape.vocabulary * shape.packs()); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t word = number_of(place) / shape.packs();
    const auto column = static_cast<int>(number_of(place) % shape.packs()) * kPack;
    if (word >= shape.vocabulary) return;
    if (shape.width % kPack == 0) return sum<true>(word, column);
    sum<false>(word, column);
  }

 private:
  template <bool kWhole>
  MUSTER_HD void sum(std::int64_t word, int column) const {
    Floats result{};
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      if (ids[row] != word) continue;
      const Floats g = load_part<kWhole>(dy + row * shape.width, shape.width, column);
      for (int i = 0; i < kPack; ++i) result.v[i] += g.v[i];
    }
    store_part<kWhole>(gradient + word * shape.width, shape.width, column, result);
  }
};

}  // namespace muster::nn::gpu
