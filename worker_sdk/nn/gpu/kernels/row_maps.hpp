// SPDX-License-Identifier: Apache-2.0
// What is done to each element of rows alone: ReLU, GELU, sums, and sums with a row that repeats.
#pragma once

#include "worker_sdk/nn/gpu/kernels/rows.hpp"

#include <cmath>
#include <cstdint>

namespace muster::nn::gpu {

/// y = Map::of(x) of each element; y may be x.
template <typename T, typename Map>
struct EachElement {
  std::int64_t count;
  const T* x;
  T* y;

  constexpr int blocks() const { return blocks_for(packs_of(count)); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t first = number_of(place) * kPack;
    if (first >= count) return;
    Floats values = load_some(x, first, count);
    for (int i = 0; i < kPack; ++i) values.v[i] = Map::of(values.v[i]);
    store_some(y, first, count, values);
  }
};

/// y = Map::of(a, b) of each pair of elements; y may be either.
template <typename T, typename Map>
struct EachPair {
  std::int64_t count;
  const T* a;
  const T* b;
  T* y;

  constexpr int blocks() const { return blocks_for(packs_of(count)); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t first = number_of(place) * kPack;
    if (first >= count) return;
    const Floats left = load_some(a, first, count);
    Floats values = load_some(b, first, count);
    for (int i = 0; i < kPack; ++i) values.v[i] = Map::of(left.v[i], values.v[i]);
    store_some(y, first, count, values);
  }
};

/// max(0, x). What is not a number passes, so that it is not hidden from the loss. Its gradient is dy where y
/// is positive, else 0.
struct ReluMap {
  MUSTER_HD static float of(float x) { return x <= 0 ? 0.0F : x; }

  MUSTER_HD static float of(float y, float dy) { return y > 0 ? dy : 0.0F; }
};

/// x * P(X <= x) for a normal X: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, without their
/// approximation, as PyTorch's default. Its gradient is dy * (P(X <= x) + x * density(x)).
struct GeluMap {
  MUSTER_HD static float of(float x) { return x * normal_share(x); }

  MUSTER_HD static float of(float x, float dy) {
    constexpr float kPeak = 0.39894228F;  // 1 / sqrt(2 pi)
    return dy * (normal_share(x) + x * kPeak * expf(-0.5F * x * x));
  }

 private:
  MUSTER_HD static float normal_share(float x) {
    constexpr float kRootOfHalf = 0.70710678F;
    return 0.5F * erfcf(-x * kRootOfHalf);
  }
};

struct SumMap {
  MUSTER_HD static float of(float a, float b) { return a + b; }
};

template <typename T>
using ReluForward = EachElement<T, ReluMap>;
template <typename T>
using ReluBackward = EachPair<T, ReluMap>;
template <typename T>
using GeluForward = EachElement<T, GeluMap>;
template <typename T>
using GeluBackward = EachPair<T, GeluMap>;
template <typename T>
using AddRows = EachPair<T, SumMap>;

/// y = x + values, where `values` has `period` elements and repeats: a bias for each row, or positions for
/// each image. y may be x.
template <typename T>
struct AddRepeated {
  std::int64_t count;
  std::int64_t period;
  const T* x;
  const float* values;
  T* y;

  constexpr int blocks() const { return blocks_for(packs_of(count)); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t first = number_of(place) * kPack;
    if (first >= count) return;
    Floats sum = load_some(x, first, count);
    const Floats more = repeated(first);
    for (int i = 0; i < kPack; ++i) sum.v[i] += more.v[i];
    store_some(y, first, count, sum);
  }

 private:
  MUSTER_HD Floats repeated(std::int64_t first) const {
    if (period % kPack == 0) return load(values + first % period);
    Floats result;
    for (int i = 0; i < kPack; ++i) result.v[i] = values[(first + i) % period];
    return result;
  }
};

/// Copies `width` elements of each row between rows that are `from_pitch` and `to_pitch` elements apart.
template <typename T>
struct CopyRows {
  std::int64_t rows;
  int width;
  const T* from;
  std::int64_t from_pitch;
  T* to;
  std::int64_t to_pitch;

  MUSTER_HD int row_packs() const { return (width + kPack - 1) / kPack; }

  int blocks() const { return blocks_for(rows * row_packs()); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t row = number_of(place) / row_packs();
    const auto column = static_cast<int>(number_of(place) % row_packs()) * kPack;
    if (row >= rows) return;
    const T* const source = from + row * from_pitch;
    T* const target = to + row * to_pitch;
    const bool whole = width % kPack == 0 && from_pitch % kPack == 0 && to_pitch % kPack == 0;
    if (whole) return store_part<true>(target, width, column, load_part<true>(source, width, column));
    store_part<false>(target, width, column, load_part<false>(source, width, column));
  }
};

}  // namespace muster::nn::gpu
