// SPDX-License-Identifier: Apache-2.0
// Products of matrices of which one lies in the cache, for the instruction set of the including file.
#pragma once

#include "worker_sdk/nn/cpu/map_kernels.hpp"
#include "worker_sdk/nn/cpu/row_kernels.hpp"

#include <cstddef>

namespace muster::nn::cpu {
namespace {

/// The left matrix: element (row, depth) is at data[row * by_row + depth * by_depth].
struct LeftMatrix {
  const float* data;
  std::size_t by_row, by_depth;
};

/// The right matrix: its rows are whole vectors of kLanes.
struct RightMatrix {
  const float* data;
  std::size_t pitch;
};

struct ResultMatrix {
  float* data;
  std::size_t pitch;
};

/// Rows and columns of the result (a multiple of kLanes), and the length of the sums.
struct Extent {
  std::size_t rows, columns, depth;
};

// A tile of results stays in registers, of which there are 32 or 16.
#if defined(__AVX512F__)
constexpr std::size_t kTileLanes = 16, kTileVectors = 4;
#elif defined(__AVX__)
constexpr std::size_t kTileLanes = 8, kTileVectors = 3;
#else
constexpr std::size_t kTileLanes = 4, kTileVectors = 3;
#endif
constexpr std::size_t kTileRows = 4;

using TileFloats = float __attribute__((vector_size(kTileLanes * sizeof(float))));

[[gnu::always_inline]] inline TileFloats tile_load(const float* from) {
  TileFloats value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

[[gnu::always_inline]] inline void tile_store(float* to, TileFloats value) {
  __builtin_memcpy(to, &value, sizeof(value));
}

/// Rows x Vectors of the result, from the first column of `b` and `c`.
template <std::size_t Rows, std::size_t Vectors>
void multiply_tile(const LeftMatrix& a, const RightMatrix& b, std::size_t depth, const ResultMatrix& c,
                   bool add) {
  TileFloats sum[Rows][Vectors] = {};
  if (add) {
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
      for (std::size_t v = 0; v < Vectors; ++v) sum[r][v] = tile_load(c.data + r * c.pitch + v * kTileLanes);
  }
  const float* left = a.data;
  const float* right = b.data;
  for (std::size_t k = 0; k < depth; ++k, left += a.by_depth, right += b.pitch) {
    TileFloats row[Vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) row[v] = tile_load(right + v * kTileLanes);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) {
      const TileFloats factor = left[r * a.by_row] - TileFloats{};
#pragma GCC unroll 4
      for (std::size_t v = 0; v < Vectors; ++v) sum[r][v] += factor * row[v];
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) tile_store(c.data + r * c.pitch + v * kTileLanes, sum[r][v]);
}

/// All rows of `Vectors` vectors of columns.
template <std::size_t Vectors>
void multiply_columns(LeftMatrix a, const RightMatrix& b, const Extent& extent, ResultMatrix c, bool add) {
  std::size_t row = 0;
  for (; row + kTileRows <= extent.rows; row += kTileRows) {
    multiply_tile<kTileRows, Vectors>(a, b, extent.depth, c, add);
    a.data += kTileRows * a.by_row;
    c.data += kTileRows * c.pitch;
  }
  for (; row < extent.rows; ++row) {
    multiply_tile<1, Vectors>(a, b, extent.depth, c, add);
    a.data += a.by_row;
    c.data += c.pitch;
  }
}

/// c = a * b, or with `add` c += a * b.
void multiply(const LeftMatrix& a, RightMatrix b, const Extent& extent, ResultMatrix c, bool add) {
  std::size_t left = extent.columns / kTileLanes;
  const auto take = [&](auto run, std::size_t vectors) {
    run(a, b, extent, c, add);
    b.data += vectors * kTileLanes;
    c.data += vectors * kTileLanes;
    left -= vectors;
  };
  while (left >= kTileVectors) take(multiply_columns<kTileVectors>, kTileVectors);
  if (left >= 3) take(multiply_columns<3>, 3);
  if (left >= 2) take(multiply_columns<2>, 2);
  if (left >= 1) take(multiply_columns<1>, 1);
}

constexpr std::size_t padded_to_lanes(std::size_t count) {
  return (count + kLanes - 1) / kLanes * kLanes;
}

/// Columns of the rows as rows of `padded` tokens, zeros behind them.
void turn(const float* from, std::size_t pitch, std::size_t tokens, std::size_t width, std::size_t padded,
          float* to) {
  for (std::size_t t = 0; t < padded; ++t)
    for (std::size_t c = 0; c < width; ++c) to[c * padded + t] = t < tokens ? from[t * pitch + c] : 0.0F;
}

/// Weights are read where they lie, a block of each row at a time, which all samples meet in the cache.
void panel_product(const PanelProduct& p) {
  constexpr std::size_t kDepth = 512;
  const std::size_t pitch = padded_to_lanes(p.samples);
  float tile[kPanelOutputs * kPanelSamples];
  for (std::size_t k = 0; k < p.depth; k += kDepth) {
    const std::size_t depth = p.depth - k < kDepth ? p.depth - k : kDepth;
    multiply({p.weights + k, p.depth, 1}, {p.turned + k * pitch, pitch}, {p.outputs, pitch, depth},
             {tile, pitch}, k > 0);
  }
  for (std::size_t n = 0; n < p.samples; ++n)
    for (std::size_t o = 0; o < p.outputs; ++o)
      p.y[n * p.pitch + o] = tile[o * pitch + n] + (p.bias == nullptr ? 0.0F : p.bias[o]);
}

}  // namespace
}  // namespace muster::nn::cpu
