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
    if (!f16) return from_float<Bf16>(value).bits;
#ifdef __CUDA_ARCH__
    std::uint16_t bits = 0;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    std::uint32_t word = 0;
    std::memcpy(&word, &value, sizeof(word));
    const std::uint32_t sign = (word >> 16) & 0x8000U;
    word &= 0x7FFFFFFFU;
    if (word > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
    if (word >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
    if (word < 0x38800000U) {
      // Below 2^-14 the distance of numbers is 2^-24, which is that of floats from 0.5 on.
      float shifted = 0;
      std::memcpy(&shifted, &word, sizeof(word));
      shifted += 0.5F;
      std::memcpy(&word, &shifted, sizeof(word));
      return static_cast<std::uint16_t>(sign | (word - 0x3F000000U));
    }
    // Ties to even; a carry goes into the exponent, whose zero lies elsewhere.
    word += 0xFFFU + ((word >> 13) & 1U) - (112U << 23);
    return static_cast<std::uint16_t>(sign | word >> 13);
#endif
  }

  MUSTER_HD float widened(std::uint16_t bits) const {
    if (!f16) return to_float(Bf16{bits});
    float result = 0;
#ifdef __CUDA_ARCH__
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(bits));
#else
    const std::uint32_t sign = (std::uint32_t{bits} & 0x8000U) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1FU;
    std::uint32_t word = (std::uint32_t{bits} & 0x7FFFU) << 13;
    if (exponent == 0) {
      result = static_cast<float>(bits & 0x3FFU) * 0x1p-24F;
      std::memcpy(&word, &result, sizeof(word));
    } else {
      word += (exponent == 0x1FU ? 224U : 112U) << 23;
    }
    word |= sign;
    std::memcpy(&result, &word, sizeof(word));
#endif
    return result;
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
