// SPDX-License-Identifier: Apache-2.0
// Elements of maps, 32-bit floats, bf16 or fp16, and how eight of them are moved at once. Sums are always
// 32-bit floats or wider.
#pragma once

#include "worker_sdk/nn/gpu/kernels/kernel.hpp"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace muster::nn::gpu {

/// The upper half of a 32-bit float, rounded to the nearest, ties to even.
struct Bf16 {
  std::uint16_t bits;
};

/// IEEE's binary16.
struct F16 {
  std::uint16_t bits;
};

/// What maps and weights of a network are made of.
enum class Element : std::uint8_t { f32, bf16, f16 };

template <typename T>
constexpr Element element_of() {
  if constexpr (std::is_same_v<T, float>)
    return Element::f32;
  else
    return std::is_same_v<T, Bf16> ? Element::bf16 : Element::f16;
}

constexpr int bytes_of(Element element) {
  return element == Element::f32 ? 4 : 2;
}

MUSTER_HD float to_float(float value) {
  return value;
}

MUSTER_HD float to_float(Bf16 value) {
  const std::uint32_t word = std::uint32_t{value.bits} << 16;
  float result = 0;
  memcpy(&result, &word, sizeof(result));
  return result;
}

MUSTER_HD float to_float(F16 value) {
  float result = 0;
#ifdef __CUDA_ARCH__
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
#else
  const std::uint32_t sign = (std::uint32_t{value.bits} & 0x8000U) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1FU;
  std::uint32_t word = (std::uint32_t{value.bits} & 0x7FFFU) << 13;
  if (exponent == 0) {
    result = static_cast<float>(value.bits & 0x3FFU) * 0x1p-24F;
    std::memcpy(&word, &result, sizeof(word));
  } else {
    word += (exponent == 0x1FU ? 224U : 112U) << 23;
  }
  word |= sign;
  std::memcpy(&result, &word, sizeof(word));
#endif
  return result;
}

/// Rounded to the nearest, ties to even; what is not a number stays so.
MUSTER_HD Bf16 to_bf16(float value) {
  Bf16 result{};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
#else
  std::uint32_t word = 0;
  memcpy(&word, &value, sizeof(word));
  // Rounding could carry what is not a number into an infinity.
  result.bits = static_cast<std::uint16_t>(value == value ? (word + 0x7FFFU + ((word >> 16) & 1U)) >> 16
                                                          : (word >> 16) | 0x40U);
#endif
  return result;
}

/// The same; what is 65,520 or more becomes an infinity.
MUSTER_HD F16 to_f16(float value) {
#ifdef __CUDA_ARCH__
  F16 result{};
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  std::uint32_t word = 0;
  std::memcpy(&word, &value, sizeof(word));
  const std::uint32_t sign = (word >> 16) & 0x8000U;
  word &= 0x7FFFFFFFU;
  if (word > 0x7F800000U) return {static_cast<std::uint16_t>(sign | 0x7E00U)};
  if (word >= 0x47800000U) return {static_cast<std::uint16_t>(sign | 0x7C00U)};
  if (word < 0x38800000U) {
    // Below 2^-14 the distance of numbers is 2^-24, which is that of floats from 0.5 on.
    float shifted = 0;
    std::memcpy(&shifted, &word, sizeof(word));
    shifted += 0.5F;
    std::memcpy(&word, &shifted, sizeof(word));
    return {static_cast<std::uint16_t>(sign | (word - 0x3F000000U))};
  }
  // Ties to even; a carry goes into the exponent, whose zero lies elsewhere.
  word += 0xFFFU + ((word >> 13) & 1U) - (112U << 23);
  return {static_cast<std::uint16_t>(sign | word >> 13)};
#endif
}

template <typename T>
MUSTER_HD T from_float(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else if constexpr (std::is_same_v<T, Bf16>)
    return to_bf16(value);
  else
    return to_f16(value);
}

/// Channels that one thread works on: 16 bytes of bf16, the widest access of a device.
constexpr int kPack = 8;

/// Eight neighbouring channels as floats.
struct Floats {
  float v[kPack];
};

/// Reads a structure of whole words of 16 bytes, with one access for each.
template <typename Words>
MUSTER_HD Words fetch_words(const void* from) {
  Words result;
#ifdef __CUDA_ARCH__
  constexpr int kWords = sizeof(result) / sizeof(uint4);
  uint4 words[kWords];
  for (int i = 0; i < kWords; ++i) words[i] = static_cast<const uint4*>(from)[i];
  memcpy(&result, words, sizeof(result));
#else
  std::memcpy(&result, from, sizeof(result));
#endif
  return result;
}

template <typename Words>
MUSTER_HD void store_words(void* to, const Words& value) {
#ifdef __CUDA_ARCH__
  constexpr int kWords = sizeof(value) / sizeof(uint4);
  uint4 words[kWords];
  memcpy(words, &value, sizeof(value));
  for (int i = 0; i < kWords; ++i) static_cast<uint4*>(to)[i] = words[i];
#else
  std::memcpy(to, &value, sizeof(value));
#endif
}

/// Eight neighbouring channels as they lie in memory. Several are fetched before the first is unpacked, so
/// that their ways through the memory overlap.
template <typename T>
struct alignas(16) Raw {
  T v[kPack];
};

template <typename T>
MUSTER_HD Raw<T> fetch(const T* from) {
  return fetch_words<Raw<T>>(from);
}

template <typename T>
MUSTER_HD Floats unpack(const Raw<T>& raw) {
  Floats result;
  for (int i = 0; i < kPack; ++i) result.v[i] = to_float(raw.v[i]);
  return result;
}

template <typename T>
MUSTER_HD Floats load(const T* from) {
  return unpack(fetch(from));
}

template <typename T>
MUSTER_HD void store(T* to, const Floats& values) {
  Raw<T> raw;
  for (int i = 0; i < kPack; ++i) raw.v[i] = from_float<T>(values.v[i]);
  store_words(to, raw);
}

/// Four neighbouring floats.
struct alignas(16) Quad {
  float v[4];
};

}  // namespace muster::nn::gpu
