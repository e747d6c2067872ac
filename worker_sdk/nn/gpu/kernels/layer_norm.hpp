// SPDX-License-Identifier: Apache-2.0
// Layer norm over the elements of each row: Ba, Kiros and Hinton, "Layer Normalization", 2016, with PyTorch's
// epsilon 1e-5. The gradients of scale and shift are those of RowSums.
#pragma once

#include "worker_sdk/nn/gpu/kernels/rows.hpp"

#include <cmath>
#include <cstdint>

namespace muster::nn::gpu {

constexpr float kLayerNormEpsilon = 1e-5F;

/// Two numbers of each row.
struct RowSumPair {
  RowSum first;
  RowSum second;
};

/// y = (x - mean) / sqrt(variance + epsilon) * scale + shift; keeps the mean and the inverse root of each
/// row. The mean first, then squares around it: so the variance keeps its digits far from zero, too. y is not
/// x.
template <typename T>
struct LayerNormForward {
  static constexpr int kSquares = kRowSteps + 1;
  static constexpr int kApply = 2 * kRowSteps + 2;
  static constexpr int kPhases = kApply + 1;
  using Shared = RowSumPair;

  std::int64_t rows;
  int width;
  const T* x;
  const float* scale;
  const float* shift;
  T* y;
  float* mean;
  float* inverse;

  constexpr int blocks() const { return row_blocks(rows); }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p > 0 && p < kSquares) return shared.first.add_step(p, place.thread);
    if (p > kSquares && p < kApply) return shared.second.add_step(p - kSquares, place.thread);
    if (width % kPack == 0) return part<true>(p, place, shared);
    part<false>(p, place, shared);
  }

 private:
  template <bool kWhole>
  MUSTER_HD void part(int p, const Place& place, Shared& shared) const {
    const RowPlace own(place);
    const bool exists = own.row < rows;
    if (p == 0) return shared.first.put(place.thread, exists ? sum<kWhole>(own) : 0.0F);
    const float centre = shared.first.at(place.thread) / static_cast<float>(width);
    if (p == kSquares) return shared.second.put(place.thread, exists ? squares<kWhole>(own, centre) : 0.0F);
    const float variance = shared.second.at(place.thread) / static_cast<float>(width);
    if (exists) apply<kWhole>(own, centre, 1.0F / sqrtf(variance + kLayerNormEpsilon));
  }

  template <bool kWhole>
  MUSTER_HD float sum(const RowPlace& own) const {
    float result = 0;
    for (int column = own.column; column < width; column += RowPlace::kRowPitch) {
      const Floats value = load_part<kWhole>(x + own.row * width, width, column);
      for (int i = 0; i < kPack; ++i) result += value.v[i];
    }
    return result;
  }

  template <bool kWhole>
  MUSTER_HD float squares(const RowPlace& own, float centre) const {
    float result = 0;
    for (int column = own.column; column < width; column += RowPlace::kRowPitch) {
      const Floats value = load_part<kWhole>(x + own.row * width, width, column);
      for (int i = 0; i < kPack; ++i) {
        const float distance = column + i < width ? value.v[i] - centre : 0.0F;
        result += distance * distance;
      }
    }
    return result;
  }

  template <bool kWhole>
  MUSTER_HD void apply(const RowPlace& own, float centre, float factor) const {
    for (int column = own.column; column < width; column += RowPlace::kRowPitch) {
      Floats value = load_part<kWhole>(x + own.row * width, width, column);
      const Floats by = load_part<kWhole>(scale, width, column);
      const Floats plus = load_part<kWhole>(shift, width, column);
      for (int i = 0; i < kPack; ++i) value.v[i] = (value.v[i] - centre) * factor * by.v[i] + plus.v[i];
      store_part<kWhole>(y + own.row * width, width, column, value);
    }
    if (own.column != 0) return;
    mean[own.row] = centre;
    inverse[own.row] = factor;
  }
};

/// The gradient of x: with g = dy * scale and n = (x - mean) * inverse, dx = inverse * (g - mean(g) - n *
/// mean(g * n)), means over the row. dx may be x or dy.
template <typename T>
struct LayerNormBackward {
  static constexpr int kApply = kRowSteps + 1;
  static constexpr int kPhases = kApply + 1;
  using Shared = RowSumPair;

  std::int64_t rows;
  int width;
  const T* x;
  const T* dy;
  const float* scale;
  const float* mean;
  const float* inverse;
  T* dx;

  constexpr int blocks() const { return row_blocks(rows); }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p > 0 && p < kApply) {
      shared.first.add_step(p, place.thread);
      return shared.second.add_step(p, place.thread);
    }
    if (width % kPack == 0) return part<true>(p, place, shared);
    part<false>(p, place, shared);
  }

 private:
  /// g and n of eight elements.
  struct Terms {
    Floats g;
    Floats n;
  };

  template <bool kWhole>
  MUSTER_HD Terms terms(const RowPlace& own, int column) const {
    Terms result;
    result.g = load_part<kWhole>(dy + own.row * width, width, column);
    result.n = load_part<kWhole>(x + own.row * width, width, column);
    const Floats by = load_part<kWhole>(scale, width, column);
    for (int i = 0; i < kPack; ++i) {
      // Behind the end of the row g is zero, and so is its product with n.
      result.g.v[i] *= by.v[i];
      result.n.v[i] = (result.n.v[i] - mean[own.row]) * inverse[own.row];
    }
    return result;
  }

  template <bool kWhole>
  MUSTER_HD void part(int p, const Place& place, Shared& shared) const {
    const RowPlace own(place);
    if (p == 0) return sum<kWhole>(own, place, shared);
    if (own.row >= rows) return;
    const float first = shared.first.at(place.thread) / static_cast<float>(width);
    const float second = shared.second.at(place.thread) / static_cast<float>(width);
    for (int column = own.column; column < width; column += RowPlace::kRowPitch) {
      Terms all = terms<kWhole>(own, column);
      for (int i = 0; i < kPack; ++i)
        all.g.v[i] = inverse[own.row] * (all.g.v[i] - first - all.n.v[i] * second);
      store_part<kWhole>(dx + own.row * width, width, column, all.g);
    }
  }

  template <bool kWhole>
  MUSTER_HD void sum(const RowPlace& own, const Place& place, Shared& shared) const {
    float first = 0;
    float second = 0;
    for (int column = own.column; own.row < rows && column < width; column += RowPlace::kRowPitch) {
      const Terms all = terms<kWhole>(own, column);
      for (int i = 0; i < kPack; ++i) {
        first += all.g.v[i];
        second += all.g.v[i] * all.n.v[i];
      }
    }
    shared.first.put(place.thread, first);
    shared.second.put(place.thread, second);
  }
};

}  // namespace muster::nn::gpu
