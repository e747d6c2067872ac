// SPDX-License-Identifier: Apache-2.0
// Rows of any width: how a kernel reads and writes eight neighbouring elements of one, and the block that 32
// threads share a row in. Memory of rows begins at a multiple of 16 bytes.
#pragma once

#include "worker_sdk/nn/gpu/kernels/pack.hpp"

#include <cstdint>

namespace muster::nn::gpu {

/// Packs of a list of `count` elements, of which the last one may be a part.
constexpr std::int64_t packs_of(std::int64_t count) {
  return (count + kPack - 1) / kPack;
}

/// The eight elements of a list of `count` from `first` on; zeros behind its end.
template <typename T>
MUSTER_HD Floats load_some(const T* from, std::int64_t first, std::int64_t count) {
  if (first + kPack <= count) return load(from + first);
  Floats result{};
  for (int i = 0; i < kPack; ++i)
    if (first + i < count) result.v[i] = to_float(from[first + i]);
  return result;
}

template <typename T>
MUSTER_HD void store_some(T* to, std::int64_t first, std::int64_t count, const Floats& values) {
  if (first + kPack <= count) return store(to + first, values);
  for (int i = 0; i < kPack; ++i)
    if (first + i < count) to[first + i] = from_float<T>(values.v[i]);
}

/// Eight elements of a row from `column` on, zeros behind its end. Unless kWhole, its width is no multiple of
/// eight, and rows begin anywhere, so that elements are read one by one.
template <bool kWhole, typename T>
MUSTER_HD Raw<T> fetch_part(const T* row, int width, int column) {
  if constexpr (kWhole) {
    return fetch(row + column);
  } else {
    Raw<T> raw{};
    for (int i = 0; i < kPack; ++i)
      if (column + i < width) raw.v[i] = row[column + i];
    return raw;
  }
}

template <bool kWhole, typename T>
MUSTER_HD Floats load_part(const T* row, int width, int column) {
  return unpack(fetch_part<kWhole>(row, width, column));
}

template <bool kWhole, typename T>
MUSTER_HD void store_part(T* row, int width, int column, const Floats& values) {
  if constexpr (kWhole) {
    store(row + column, values);
  } else {
    for (int i = 0; i < kPack; ++i)
      if (column + i < width) row[column + i] = from_float<T>(values.v[i]);
  }
}

/// Threads that share a row, and rows of a block.
constexpr int kRowLanes = 32;
constexpr int kBlockRows = kBlockThreads / kRowLanes;
/// Parts of the body that add up what the threads of a row hold.
constexpr int kRowSteps = 5;
static_assert(1 << kRowSteps == kRowLanes);

constexpr int row_blocks(std::int64_t rows) {
  return rows < 1 ? 1 : static_cast<int>((rows + kBlockRows - 1) / kBlockRows);
}

/// The row of a thread, and its first column; its next ones are kRowPitch apart.
struct RowPlace {
  static constexpr int kRowPitch = kRowLanes * kPack;

  std::int64_t row = 0;
  int column = 0;

  MUSTER_HD explicit RowPlace(const Place& place)
      : row(std::int64_t{place.block} * kBlockRows + place.thread / kRowLanes),
        column(place.thread % kRowLanes * kPack) {}
};

/// A number of each thread. After the steps 1 to kRowSteps that of the whole row is at().
struct RowSum {
  float values[kBlockThreads];

  MUSTER_HD void put(int thread, float value) { values[thread] = value; }

  MUSTER_HD void add_step(int step, int thread) {
    const int half = kRowLanes >> step;
    if (thread % kRowLanes < half) values[thread] += values[thread + half];
  }

  /// What is not a number wins.
  MUSTER_HD void maximum_step(int step, int thread) {
    const int half = kRowLanes >> step;
    if (thread % kRowLanes >= half) return;
    const float other = values[thread + half];
    if (!(other <= values[thread])) values[thread] = other;
  }

  MUSTER_HD float at(int thread) const { return values[thread / kRowLanes * kRowLanes]; }
};

}  // namespace muster::nn::gpu
