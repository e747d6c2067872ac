// SPDX-License-Identifier: Apache-2.0
// Sixteen floats as the compiler's vectors. Included only by files that are compiled for one instruction set
// each; everything is in an unnamed namespace, so that no function is shared between them.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace muster::nn::cpu {
namespace {

using Floats = float __attribute__((vector_size(64)));
using Words = std::uint32_t __attribute__((vector_size(64)));
using Halves = std::uint16_t __attribute__((vector_size(32)));
using Bytes = std::uint8_t __attribute__((vector_size(16)));

/// Reads a vector from memory of any alignment. (Through a pointer to a vector type of a lesser one, clang 19
/// reads as if it were aligned.)
template <class Vector>
[[gnu::always_inline]] inline Vector read_loose(const void* from) {
  Vector value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

[[gnu::always_inline]] inline Words load_bytes(const std::uint8_t* from) {
  return __builtin_convertvector(read_loose<Bytes>(from), Words);
}

[[gnu::always_inline]] inline void store_bytes(std::uint8_t* to, Words values) {
  const Bytes bytes = __builtin_convertvector(values, Bytes);
  __builtin_memcpy(to, &bytes, sizeof(bytes));
}

/// bf16: the upper half of a float.
struct Brain {
  std::uint16_t bits;
};

[[gnu::always_inline]] inline Floats load(const float* from) {
  return read_loose<Floats>(from);
}

[[gnu::always_inline]] inline void store(float* to, Floats value) {
  __builtin_memcpy(to, &value, sizeof(value));
}

[[gnu::always_inline]] inline Floats load(const Brain* from) {
  return reinterpret_cast<Floats>(__builtin_convertvector(read_loose<Halves>(from), Words) << 16);
}

/// Rounded to nearest, ties to even; a NaN stays one, as its upper half has the quiet bit set by arithmetic.
[[gnu::always_inline]] inline void store(Brain* to, Floats value) {
  const Words bits = reinterpret_cast<Words>(value);
  const Words rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const Words is_nan = reinterpret_cast<Words>(value != value);
  const Words kept = (rounded & ~is_nan) | ((bits >> 16) & is_nan);
  const Halves bits16 = __builtin_convertvector(kept, Halves);
  __builtin_memcpy(to, &bits16, sizeof(bits16));
}

[[gnu::always_inline]] inline Floats all(float value) {
  return value - Floats{};
}

[[gnu::always_inline]] inline Words words(std::uint32_t value) {
  return Words{} + value;
}

/// The value where `mask` is all ones, 0 where it is 0.
[[gnu::always_inline]] inline Floats where(Words mask, Floats value) {
  return reinterpret_cast<Floats>(reinterpret_cast<Words>(value) & mask);
}

/// max(0, value); what is not a number stays so.
#if defined(__AVX512F__)
[[gnu::always_inline]] inline Floats positive(Floats value) {
  return _mm512_max_ps(_mm512_setzero_ps(), value);  // of a number and none, the second operand
}

[[gnu::always_inline]] inline std::uint16_t signs_of(Floats value) {
  return _mm512_cmp_ps_mask(value, _mm512_setzero_ps(), _CMP_GT_OQ);
}

[[gnu::always_inline]] inline Floats masked(Floats value, std::uint16_t signs) {
  return _mm512_maskz_mov_ps(signs, value);
}
#else
[[gnu::always_inline]] inline Floats positive(Floats value) {
  return reinterpret_cast<Floats>(reinterpret_cast<Words>(value) &
                                  reinterpret_cast<Words>(!(value <= all(0.0F))));
}

inline constexpr Words kLaneBits = {1U << 0,  1U << 1,  1U << 2,  1U << 3, 1U << 4,  1U << 5,
                                    1U << 6,  1U << 7,  1U << 8,  1U << 9, 1U << 10, 1U << 11,
                                    1U << 12, 1U << 13, 1U << 14, 1U << 15};

[[gnu::always_inline]] inline std::uint16_t signs_of(Floats value) {
  const Words set = reinterpret_cast<Words>(value > all(0.0F)) & kLaneBits;
  std::uint32_t bits = 0;
  for (int lane = 0; lane < 16; ++lane) bits |= set[lane];
  return static_cast<std::uint16_t>(bits);
}

[[gnu::always_inline]] inline Floats masked(Floats value, std::uint16_t signs) {
  const Words set = ((Words{} + std::uint32_t{signs}) & kLaneBits) != Words{};
  return reinterpret_cast<Floats>(reinterpret_cast<Words>(value) & set);
}
#endif

}  // namespace
}  // namespace muster::nn::cpu
