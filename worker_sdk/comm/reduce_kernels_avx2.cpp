// SPDX-License-Identifier: Apache-2.0
// The loops for x86 processors with AVX2 and F16C.
#include "worker_sdk/comm/reduce_kernels.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define MUSTER_KERNEL gnu::target("avx2,f16c")
#define MUSTER_VECTOR_BYTES 32
#include "worker_sdk/comm/reduce_loops.hpp"

namespace muster::kernels {
namespace {

using F32 = Plain<float>;

struct F16 : F32 {
  using Stored = Half;

  [[MUSTER_INLINE]] static Register load(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }

  [[MUSTER_INLINE]] static void store(std::byte* to, Register value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
};

/// The bf16 in the upper half of each lane, rounded from f32; the lower half is undefined.
[[MUSTER_INLINE]] inline __m256i round_to_bf16(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040'0000));
  const __m256 is_nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
  return _mm256_castps_si256(
      _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), is_nan));
}

struct LinearBf16 : F32 {
  using Stored = BFloat16;

  [[MUSTER_INLINE]] static Register load(const std::byte* from) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }

  [[MUSTER_INLINE]] static void store(std::byte* to, Register value) {
    const __m256i upper = _mm256_srli_epi32(round_to_bf16(value), 16);
    const __m128i packed =
        _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), packed);
  }
};

/// Lanes of f32 made of the even and of the odd elements: no instruction has to move them from place to
/// place.
struct PairedBf16 {
  struct Register {
    __m256 even;
    __m256 odd;
  };

  using Stored = BFloat16;
  using Value = float;
  static constexpr std::size_t kElements = 16;

  [[MUSTER_INLINE]] static Register load(const std::byte* from) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(-0x1'0000)))};
  }

  [[MUSTER_INLINE]] static void store(std::byte* to, Register value) {
    const __m256i even = _mm256_srli_epi32(round_to_bf16(value.even), 16);
    const __m256i odd = round_to_bf16(value.odd);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_blend_epi16(even, odd, 0xaa));
  }

  template <typename Op>
  [[MUSTER_INLINE]] static Register apply(Register a, Register b) {
    return {Op::apply(a.even, b.even), Op::apply(a.odd, b.odd)};
  }

  [[MUSTER_INLINE]] static Register divide(Register value, float divisor) {
    return {value.even / divisor, value.odd / divisor};
  }
};

constexpr Table kTable = make_table(half_row<F16, F16, F32>(), half_row<PairedBf16, LinearBf16, F32>());

}  // namespace

const Table* avx2_table() {
  return &kTable;
}

}  // namespace muster::kernels

#else

namespace muster::kernels {

const Table* avx2_table() {
  return nullptr;
}

}  // namespace muster::kernels

#endif
