// SPDX-License-Identifier: Apache-2.0
// From maps and images to rows: another order of elements, the grey of images. Means over tokens are those
// of AveragePool.
#pragma once

#include "worker_sdk/nn/gpu/kernels/rows.hpp"

#include <cstdint>

namespace muster::nn::gpu {

/// For each image a matrix of rows x columns becomes one of columns x rows: pixels x channels and back.
template <typename T>
struct TransposeImages {
  static constexpr int kTile = 32;
  static constexpr int kPhases = 2;

  /// A column more, so that threads that read a column hit different banks.
  struct Shared {
    float tile[kTile][kTile + 1];
  };

  std::int64_t images;
  int rows;
  int columns;
  const T* from;
  T* to;

  static constexpr int tiles(int extent) { return (extent + kTile - 1) / kTile; }

  constexpr int blocks() const {
    return images < 1 ? 1 : static_cast<int>(images * tiles(rows) * tiles(columns));
  }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    const int per_image = tiles(rows) * tiles(columns);
    const std::int64_t image = place.block / per_image;
    if (image >= images) return;
    const int first_row = place.block % per_image / tiles(columns) * kTile;
    const int first_column = place.block % per_image % tiles(columns) * kTile;
    const std::int64_t begin = image * rows * columns;
    const int lane = place.thread % kTile;
    for (int i = place.thread / kTile; i < kTile; i += kBlockThreads / kTile) {
      if (p == 0) {
        if (first_row + i < rows && first_column + lane < columns)
          shared.tile[i][lane] =
              to_float(from[begin + std::int64_t{first_row + i} * columns + first_column + lane]);
      } else if (first_column + i < columns && first_row + lane < rows) {
        to[begin + std::int64_t{first_column + i} * rows + first_row + lane] =
            from_float<T>(shared.tile[lane][i]);
      }
    }
  }
};

/// The mean of the first three of the eight channels of each pixel.
template <typename T>
struct GreyPixels {
  std::int64_t pixels;
  const T* images;
  T* grey;

  constexpr int blocks() const { return blocks_for(pixels); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t pixel = number_of(place);
    if (pixel >= pixels) return;
    const Floats value = load(images + pixel * kPack);
    grey[pixel] = from_float<T>((value.v[0] + value.v[1] + value.v[2]) / 3.0F);
  }
};

}  // namespace muster::nn::gpu
