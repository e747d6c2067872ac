// SPDX-License-Identifier: Apache-2.0
// The loops for x86 processors with the common parts of AVX-512, only for the 16-bit formats, which are
// limited by computing and not by memory. The other types gain nothing over AVX2. The conversions of
// AVX512-BF16 are not used, because they flush subnormals.
#include "worker_sdk/comm/reduce_kernels.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define MUSTER_KERNEL gnu::target("avx512f,avx512bw,avx512dq,avx512vl")
#define MUSTER_VECTOR_BYTES 64
#include "worker_sdk/comm/reduce_loops.hpp"

namespace muster::kernels {
namespace {

using F32 = Plain<float>;

struct F16 : F32 {
  using Stored = Half;

  [[MUSTER_INLINE]] static Register load(const std::byte* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }

  [[MUSTER_INLINE]] static void store(std::byte* to, Register value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
};

/// The bf16 in the upper half of each lane, rounded from f32; the lower half is undefined.
[[MUSTER_INLINE]] inline __m512i round_to_bf16(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x0040'0000));
}

struct LinearBf16 : F32 {
  using Stored = BFloat16;

  [[MUSTER_INLINE]] static Register load(const std::byte* from) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }

  [[MUSTER_INLINE]] static void store(std::byte* to, Register value) {
    const __m512i upper = _mm512_srli_epi32(round_to_bf16(value), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(upper));
  }
};

/// Lanes of f32 made of the even and of the odd elements: no instruction has to move them from place to
/// place.
struct PairedBf16 {
  struct Register {
    __m512 even;
    __m512 odd;
  };

  using Stored = BFloat16;
  using Value = float;
  static constexpr std::size_t kElements = 32;

  [[MUSTER_INLINE]] static Register load(const std::byte* from) {
    const __m512i bits = _mm512_loadu_si512(from);
    return {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(-0x1'0000)))};
  }

  [[MUSTER_INLINE]] static void store(std::byte* to, Register value) {
    const __m512i even = _mm512_srli_epi32(round_to_bf16(value.even), 16);
    const __m512i odd = round_to_bf16(value.odd);
    _mm512_storeu_si512(to, _mm512_mask_blend_epi16(0xaaaa'aaaa, even, odd));
  }

  template <typename Op>
  [[MUSTER_INLINE]] static Register apply(Register a, Register b) {
    return {Op::apply(a.even, b.even), Op::apply(a.odd, b.odd)};
  }

  [[MUSTER_INLINE]] static Register divide(Register value, float divisor) {
    return {value.even / divisor, value.odd / divisor};
  }
};

}  // namespace

const Table* avx512_table() {
  static const Table table = [] {
    Table all = *avx2_table();
    all[static_cast<std::size_t>(DataType::f16)] = half_row<F16, F16, F32>();
    all[static_cast<std::size_t>(DataType::bf16)] = half_row<PairedBf16, LinearBf16, F32>();
    return all;
  }();
  return &table;
}

}  // namespace muster::kernels

#else

namespace muster::kernels {

const Table* avx512_table() {
  return nullptr;
}

}  // namespace muster::kernels

#endif
