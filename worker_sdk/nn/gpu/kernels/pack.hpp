// SPDX-License-Identifier: Apache-2.0
// Elements of maps, 32-bit floats or bf16, and how eight of them are moved at once. Sums are always 32-bit
// floats or wider.
#pragma once

#include "worker_sdk/nn/gpu/kernels/kernel.hpp"

#include <cstdint>
#include <cstring>

namespace muster::nn::gpu {

/// The upper half of a 32-bit float, rounded to the nearest, ties to even.
struct Bf16 {
  std::uint16_t bits;
};

MUSTER_HD float to_float(float value) {
  return value;
}

MUSTER_HD float to_float(Bf16 value) {
  const std::uint32_t word = std::uint32_t{value.bits} << 16;
  float result = 0;
  memcpy(&result, &word, sizeof(result));
  return result;
}

template <typename T>
MUSTER_HD T from_float(float value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return value;
  } else {
    T result{};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
#else
    std::uint32_t word = 0;
    memcpy(&word, &value, sizeof(word));
    // What is not a number stays so: rounding could carry it into an infinity.
    result.bits = static_cast<std::uint16_t>(value == value ? (word + 0x7FFFU + ((word >> 16) & 1U)) >> 16
                                                            : (word >> 16) | 0x40U);
#endif
    return result;
  }
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
