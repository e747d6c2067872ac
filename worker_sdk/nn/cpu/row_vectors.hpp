// SPDX-License-Identifier: Apache-2.0
// What the loops over rows add to map_vectors.hpp: rows whose width is not a multiple of a vector, sums and
// maxima over a vector, exponentials. As there, everything is in an unnamed namespace.
#pragma once

#include "worker_sdk/nn/cpu/map_kernels.hpp"
#include "worker_sdk/nn/cpu/map_vectors.hpp"

namespace muster::nn::cpu {
namespace {

/// A whole vector of a row.
struct Whole {
  [[gnu::always_inline]] static Floats load(const float* from) { return cpu::load(from); }

  [[gnu::always_inline]] static void store(float* to, Floats value) { cpu::store(to, value); }

  /// The lanes that belong to the row; 0 in the others.
  [[gnu::always_inline]] static Floats kept(Floats value) { return value; }

  /// The lanes that belong to the row; `other` in the others.
  [[gnu::always_inline]] static Floats kept_or(Floats value, Floats) { return value; }
};

/// The end of a row: the first `count` lanes of a vector.
struct Part {
  std::size_t count;

#ifdef __AVX512F__
  [[gnu::always_inline]] __mmask16 mask() const {
    return static_cast<__mmask16>((1U << count) - 1U);
  }

  [[gnu::always_inline]] Floats load(const float* from) const {
    return _mm512_maskz_loadu_ps(mask(), from);
  }

  [[gnu::always_inline]] void store(float* to, Floats value) const {
    _mm512_mask_storeu_ps(to, mask(), value);
  }

  [[gnu::always_inline]] Floats kept_or(Floats value, Floats other) const {
    return _mm512_mask_mov_ps(other, mask(), value);
  }
#else
  [[gnu::always_inline]] Floats load(const float* from) const {
    Floats value = {};
    for (std::size_t lane = 0; lane < count; ++lane) value[lane] = from[lane];
    return value;
  }

  [[gnu::always_inline]] void store(float* to, Floats value) const {
    for (std::size_t lane = 0; lane < count; ++lane) to[lane] = value[lane];
  }

  [[gnu::always_inline]] Floats kept_or(Floats value, Floats other) const {
    for (std::size_t lane = count; lane < kLanes; ++lane) value[lane] = other[lane];
    return value;
  }
#endif

  [[gnu::always_inline]] Floats kept(Floats value) const {
    return kept_or(value, Floats{});
  }
};

/// Calls body(offset, Whole or Part) for each vector of a row.
template <typename Body>
[[gnu::always_inline]] inline void along(std::size_t width, const Body& body) {
  std::size_t at = 0;
  for (; at + kLanes <= width; at += kLanes) body(at, Whole{});
  if (at < width) body(at, Part{width - at});
}

/// The greater ones; of a number and none, either.
[[gnu::always_inline]] inline Floats greater_of(Floats a, Floats b) {
#ifdef __AVX512F__
  return _mm512_max_ps(a, b);
#else
  const Words first = reinterpret_cast<Words>(a > b);
  return where(first, a) + where(~first, b);
#endif
}

/// Sum of the lanes, each half added to the other.
[[gnu::always_inline]] inline float lane_sum(Floats value) {
#ifdef __AVX512F__
  return _mm512_reduce_add_ps(value);
#else
  float lanes[kLanes];
  store(lanes, value);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
#endif
}

[[gnu::always_inline]] inline float lane_maximum(Floats value) {
#ifdef __AVX512F__
  return _mm512_reduce_max_ps(value);
#else
  float greatest = value[0];
  for (std::size_t lane = 1; lane < kLanes; ++lane)
    greatest = value[lane] > greatest ? value[lane] : greatest;
  return greatest;
#endif
}

/// e to the power of `x`, within two units in the last place; 0 where that is below the smallest normal
/// number, and bounded for x above 88. What is not a number stays so. By the polynomial of Cephes' expf
/// (Moshier, 1989).
[[gnu::always_inline]] inline Floats exponential(Floats x) {
  const Floats lowest = all(-87.33654F), highest = all(88.0F);
  const Words too_low = reinterpret_cast<Words>(x < lowest), too_high = reinterpret_cast<Words>(x > highest);
  const Floats inside = where(~(too_low | too_high), x) + where(too_high, highest);
  // Added to it, the product is rounded to a whole number, which then stands in the lowest bits.
  const Floats magic = all(12582912.0F);
  const Floats shifted = inside * 1.44269504F + magic;
  const Floats whole = shifted - magic;
  const Floats rest = (inside - whole * 0.693359375F) + whole * 2.12194440e-4F;
  Floats sum = all(1.9875691500e-4F);
  sum = sum * rest + 1.3981999507e-3F;
  sum = sum * rest + 8.3334519073e-3F;
  sum = sum * rest + 4.1665795894e-2F;
  sum = sum * rest + 1.6666665459e-1F;
  sum = sum * rest + 5.0000001201e-1F;
  sum = sum * (rest * rest) + rest + 1.0F;
  const Words power = (reinterpret_cast<Words>(shifted) << 23) + 0x3F800000U;
  return where(~too_low, sum * reinterpret_cast<Floats>(power));
}

}  // namespace
}  // namespace muster::nn::cpu
