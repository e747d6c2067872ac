// SPDX-License-Identifier: Apache-2.0
// Sums over rows, column by column, for rows of any width: gradients of biases, positions, and of the scale
// and shift of a layer norm.
#pragma once

#include "worker_sdk/nn/gpu/kernels/partial_sums.hpp"
#include "worker_sdk/nn/gpu/kernels/rows.hpp"

#include <cstdint>

namespace muster::nn::gpu {

/// The mean and the inverse deviation of each row.
struct RowStatistics {
  const float* mean;
  const float* inverse;
};

/// Columns as the sums of maps share them out (sum_shape): narrow rows are padded to a power of two, others
/// to whole groups.
constexpr int summed_columns(int width) {
  if (width >= kSumChannels) return (width + kSumChannels - 1) / kSumChannels * kSumChannels;
  int columns = kPack;
  while (columns < width) columns *= 2;
  return columns;
}

/// Writes the sums of each column of dy to `sums`, and where there are `products`, those of dy times the
/// normalized x to them. Of rows of `width` elements the first `count` have sums. In two passes: blocks leave
/// partial sums, which the last of a group adds up in double and in their order.
template <typename T>
struct RowSums {
  static constexpr int kPhases = 1 + kPartialPhases + kFinishPhases;
  using Shared = SumShared;

  std::int64_t rows;
  int width;
  int count;
  const T* dy;
  const T* x;
  RowStatistics statistics;
  float* partials;
  float* sums;
  float* products;

  constexpr MapSize map() const { return {rows, summed_columns(width)}; }

  constexpr int blocks() const {
    const SumShape shape = sum_shape(map());
    return shape.groups * shape.blocks;
  }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    const MapSize size = map();
    if (p == 0) return gather(place, shared.own);
    if (sum_shape(size).blocks == 1) return finish_alone(p, place, shared.own);
    if (p <= kPartialPhases) return leave_partials(p, place, size, shared, partials);
    finish_last(p - kPartialPhases - 1, place, size, shared, partials,
                [this](int c, double sum, double product) { finish(c, sum, product); });
  }

 private:
  template <bool kWhole, bool kProducts>
  struct Sums {
    struct Fetched {
      Raw<T> dy;
      Raw<T> x;
      float mean;
      float inverse;
    };

    const RowSums& all;
    int column;
    Floats sum;
    Floats product;

    MUSTER_HD Fetched fetch(std::int64_t row) const {
      Fetched fetched;
      fetched.dy = fetch_part<kWhole>(all.dy + row * all.width, all.width, column);
      if constexpr (kProducts) {
        fetched.x = fetch_part<kWhole>(all.x + row * all.width, all.width, column);
        fetched.mean = all.statistics.mean[row];
        fetched.inverse = all.statistics.inverse[row];
      }
      return fetched;
    }

    MUSTER_HD void add(std::int64_t, const Fetched& fetched) {
      const Floats g = unpack(fetched.dy);
      for (int i = 0; i < kPack; ++i) sum.v[i] += g.v[i];
      if constexpr (kProducts) {
        const Floats value = unpack(fetched.x);
        for (int i = 0; i < kPack; ++i)
          product.v[i] += g.v[i] * ((value.v[i] - fetched.mean) * fetched.inverse);
      }
    }
  };

  template <bool kWhole, bool kProducts>
  MUSTER_HD void sum(const Place& place, SumScratch& shared) const {
    const SumPlace own = sum_place(map(), place);
    Sums<kWhole, kProducts> body = {*this, own.channel, {}, {}};
    if (own.channel < width) fetch_ahead<rows_at_once<T>()>(own.first, own.stride, rows, body);
    shared.put(place.thread, body.sum, body.product);
  }

  MUSTER_HD void gather(const Place& place, SumScratch& shared) const {
    if (width % kPack != 0)
      return products != nullptr ? sum<false, true>(place, shared) : sum<false, false>(place, shared);
    if (products != nullptr) return sum<true, true>(place, shared);
    sum<true, false>(place, shared);
  }

  /// Where one block has all rows of its columns: there are as many groups then as there may be.
  MUSTER_HD void finish_alone(int p, const Place& place, SumScratch& shared) const {
    const SumShape shape = sum_shape(map());
    const int packs = shape.width / kPack;
    if (p <= kTreeSteps) return tree_step(p, packs, place, shared);
    if (p != kPartialPhases || place.thread >= packs) return;
    for (int i = 0; i < kPack; ++i)
      finish(place.block % shape.groups * shape.width + place.thread * kPack + i,
             static_cast<double>(shared.first[i][place.thread]),
             static_cast<double>(shared.second[i][place.thread]));
  }

  MUSTER_HD void finish(int column, double sum, double product) const {
    if (column >= count) return;
    sums[column] = static_cast<float>(sum);
    if (products != nullptr) products[column] = static_cast<float>(product);
  }
};

}  // namespace muster::nn::gpu
