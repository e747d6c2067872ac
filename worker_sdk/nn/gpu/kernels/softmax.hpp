// SPDX-License-Identifier: Apache-2.0
// Softmax over the elements of each row, for attention: Vaswani et al., "Attention Is All You Need", 2017.
#pragma once

#include "worker_sdk/nn/gpu/kernels/rows.hpp"

#include <cmath>
#include <cstdint>

namespace muster::nn::gpu {

/// Where the largest element, then the sum of the exponentials of each row is.
struct SoftmaxShared {
  RowSum peak;
  RowSum sum;
};

/// values = softmax(factor * values), in place; factor > 0.
template <typename T>
struct SoftmaxForward {
  static constexpr int kExponentials = kRowSteps + 1;
  static constexpr int kApply = 2 * kRowSteps + 2;
  static constexpr int kPhases = kApply + 1;
  using Shared = SoftmaxShared;

  std::int64_t rows;
  int width;
  float factor;
  T* values;

  constexpr int blocks() const { return row_blocks(rows); }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p > 0 && p < kExponentials) return shared.peak.maximum_step(p, place.thread);
    if (p > kExponentials && p < kApply) return shared.sum.add_step(p - kExponentials, place.thread);
    if (width % kPack == 0) return part<true>(p, place, shared);
    part<false>(p, place, shared);
  }

 private:
  template <bool kWhole>
  MUSTER_HD void part(int p, const Place& place, Shared& shared) const {
    const RowPlace own(place);
    const bool exists = own.row < rows;
    if (p == 0) return shared.peak.put(place.thread, exists ? largest<kWhole>(own) : 0.0F);
    const float peak = shared.peak.at(place.thread);
    if (p == kExponentials) return shared.sum.put(place.thread, exists ? sum<kWhole>(own, peak) : 0.0F);
    if (exists) apply<kWhole>(own, peak, 1.0F / shared.sum.at(place.thread));
  }

  template <bool kWhole>
  MUSTER_HD float largest(const RowPlace& own) const {
    // Of threads without an element, too: any element of the row will do.
    float result = to_float(values[own.row * width]);
    for (int column = own.column; column < width; column += RowPlace::kRowPitch) {
      const Floats value = load_part<kWhole>(values + own.row * width, width, column);
      for (int i = 0; i < kPack; ++i)
        if (column + i < width && !(value.v[i] <= result)) result = value.v[i];
    }
    return result;
  }

  template <bool kWhole>
  MUSTER_HD float sum(const RowPlace& own, float peak) const {
    float result = 0;
    for (int column = own.column; column < width; column += RowPlace::kRowPitch) {
      const Floats value = load_part<kWhole>(values + own.row * width, width, column);
      for (int i = 0; i < kPack; ++i)
        if (column + i < width) result += expf(factor * (value.v[i] - peak));
    }
    return result;
  }

  template <bool kWhole>
  MUSTER_HD void apply(const RowPlace& own, float peak, float share) const {
    T* const row = values + own.row * width;
    for (int column = own.column; column < width; column += RowPlace::kRowPitch) {
      Floats value = load_part<kWhole>(row, width, column);
      for (int i = 0; i < kPack; ++i) value.v[i] = expf(factor * (value.v[i] - peak)) * share;
      store_part<kWhole>(row, width, column, value);
    }
  }
};

/// gradient = factor * p * (gradient - sum(gradient * p)), in place: the gradient of what the softmax has
/// read, from that of its probabilities.
template <typename T>
struct SoftmaxBackward {
  static constexpr int kApply = kRowSteps + 1;
  static constexpr int kPhases = kApply + 1;
  using Shared = RowSum;

  std::int64_t rows;
  int width;
  float factor;
  const T* probabilities;
  T* gradient;

  constexpr int blocks() const { return row_blocks(rows); }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p > 0 && p < kApply) return shared.add_step(p, place.thread);
    if (width % kPack == 0) return part<true>(p, place, shared);
    part<false>(p, place, shared);
  }

 private:
  template <bool kWhole>
  MUSTER_HD void part(int p, const Place& place, Shared& shared) const {
    const RowPlace own(place);
    const std::int64_t begin = own.row * width;
    const float sum = p == 0 ? 0.0F : shared.at(place.thread);
    float own_sum = 0;
    for (int column = own.column; own.row < rows && column < width; column += RowPlace::kRowPitch) {
      const Floats share = load_part<kWhole>(probabilities + begin, width, column);
      Floats value = load_part<kWhole>(gradient + begin, width, column);
      for (int i = 0; i < kPack; ++i) {
        own_sum += value.v[i] * share.v[i];
        value.v[i] = factor * share.v[i] * (value.v[i] - sum);
      }
      if (p == kApply) store_part<kWhole>(gradient + begin, width, column, value);
    }
    if (p == 0) shared.put(place.thread, own_sum);
  }
};

}  // namespace muster::nn::gpu
