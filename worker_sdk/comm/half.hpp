// SPDX-License-Identifier: Apache-2.0
// The two 16-bit floating-point formats, in integer arithmetic: exact, and independent of the processor and
// its modes.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace muster {

/// IEEE 754 binary16: 1 bit of sign, 5 of exponent, 10 of fraction.
struct Half {
  std::uint16_t bits;
};

/// The upper half of an IEEE 754 binary32.
struct BFloat16 {
  std::uint16_t bits;
};

template <typename T>
constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

constexpr std::uint32_t kInfinityBits = 0x7f80'0000;

/// Converts exactly. A NaN keeps its sign and payload and becomes quiet.
constexpr float widen(Half value) {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffU;
  if (magnitude < 0x0400) {  // zero and subnormals: multiples of 2^-24
    const float unsigned_value = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(unsigned_value));
  }
  if (magnitude < 0x7c00) return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
  const std::uint32_t quiet = magnitude == 0x7c00 ? 0 : 0x0040'0000U;
  return std::bit_cast<float>(sign | kInfinityBits | quiet | (magnitude & 0x3ffU) << 13);
}

/// Converts exactly, since the format is the upper half of the result.
constexpr float widen(BFloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

/// Rounds to nearest, ties to even. A NaN keeps its sign and the upper bits of its payload and becomes quiet.
template <typename T>
constexpr T narrow(float value);

template <>
constexpr Half narrow<Half>(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fff'ffffU;
  std::uint32_t result = 0;
  if (magnitude > kInfinityBits) {
    result = 0x7e00U | (magnitude >> 13 & 0x3ffU);
  } else if (magnitude >= 0x477f'f000) {  // 65520, half way beyond the largest
    result = 0x7c00;
  } else if (magnitude >= 0x3880'0000) {  // 2^-14, the smallest normal
    result = (magnitude + 0xfffU + (magnitude >> 13 & 1U) - (112U << 23)) >> 13;
  } else if (magnitude > 0x3300'0000) {  // 2^-25, half of the smallest subnormal
    const std::uint32_t fraction = (magnitude & 0x007f'ffffU) | 0x0080'0000U;
    const std::uint32_t shift = 126 - (magnitude >> 23);
    const std::uint32_t odd = fraction >> shift & 1U;
    result = (fraction + (1U << (shift - 1)) - 1 + odd) >> shift;
  }
  return {static_cast<std::uint16_t>(sign | result)};
}

template <>
constexpr BFloat16 narrow<BFloat16>(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7fff'ffffU) > kInfinityBits;
  const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  return {static_cast<std::uint16_t>(is_nan ? (bits >> 16 | 0x40U) : rounded)};
}

}  // namespace muster
