// SPDX-License-Identifier: Apache-2.0
// Gradients on their way between ranks in 16 bits, with the bits of make_half_hook() (parallel/compression):
// scaled by a power of two, rounded to nearest, summed over the ranks in 32 bits, rounded once more.
#pragma once

#include "worker_sdk/nn/gpu/kernels/pack.hpp"

#include <cstdint>
#include <cstring>

namespace muster::nn::gpu {

/// Numbers of 16 bits as they travel: IEEE's binary16, or bf16.
struct HalfType {
  bool f16 = false;

  MUSTER_HD std::uint16_t rounded(float value) const {
    return f16 ? to_f16(value).bits : to_bf16(value).bits;
  }

  MUSTER_HD float widened(std::uint16_t bits) const {
    return f16 ? to_float(F16{bits}) : to_float(Bf16{bits});
  }
};

/// The power of two that is not below the samples of all ranks.
MUSTER_HD float half_scale(float samples) {
  float scale = 1;
  while (scale < samples) scale *= 2;
  return scale;
}

/// Rounds gradients / half_scale(samples); the numbers from `count` up to `padded` are zero.
struct PackHalf {
  HalfType type;
  std::int64_t count;
  std::int64_t padded;
  const float* gradients;
  const float* samples;
  std::uint16_t* wire;

  constexpr int blocks() const { return blocks_for(padded); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = number_of(place);
    if (i < padded) wire[i] = i < count ? type.rounded(gradients[i] * (1 / half_scale(*samples))) : 0;
  }
};

/// Sums `ranks` parts of `count` numbers, one after the other, in their order.
struct SumHalf {
  HalfType type;
  int ranks;
  std::int64_t count;
  const std::uint16_t* parts;
  std::uint16_t* sum;

  constexpr int blocks() const { return blocks_for(count); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = number_of(place);
    if (i >= count) return;
    float total = type.widened(parts[i]);
    for (int rank = 1; rank < ranks; ++rank) total += type.widened(parts[rank * count + i]);
    sum[i] = type.rounded(total);
  }
};

/// Gradients of a sum. Without samples they stay as they are.
struct UnpackHalf {
  HalfType type;
  std::int64_t count;
  const std::uint16_t* wire;
  const float* samples;
  float* gradients;

  constexpr int blocks() const { return blocks_for(count); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = number_of(place);
    if (i<count&& * samples> 0) gradients[i] = type.widened(wire[i]) * half_scale(*samples);
  }
};

}  // namespace muster::nn::gpu
