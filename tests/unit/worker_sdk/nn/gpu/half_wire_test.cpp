// SPDX-License-Identifier: Apache-2.0
// Gradients that travel in 16 bits from a device.
#include "worker_sdk/nn/gpu/kernels/half_wire.hpp"

#include "tests/support/catch.hpp"
#include "worker_sdk/comm/reduce.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace muster::nn::gpu {

TEST_CASE("numbers of 16 bits are widened and rounded as the host's reductions do it", "[gpu]") {
  const DataType wire = GENERATE(DataType::f16, DataType::bf16);
  const HalfType type = {wire == DataType::f16};
  constexpr std::size_t kAll = 65536;
  std::vector<std::uint16_t> bits(kAll);
  std::iota(bits.begin(), bits.end(), std::uint16_t{0});
  std::vector<float> wanted(kAll);
  const auto* const source = reinterpret_cast<const std::byte*>(bits.data());
  reduce_partly({&source, 1}, reinterpret_cast<std::byte*>(wanted.data()), kAll, wire, ReduceOp::sum);
  std::vector<float> between;
  for (std::size_t i = 0; i < kAll; ++i) {
    if (!std::isfinite(wanted[i])) continue;
    if (type.widened(bits[i]) != wanted[i]) FAIL("widened " << bits[i]);
    // Each number, and what lies halfway to the next one (a tie) and next to that.
    const float next = i + 1 < kAll && std::isfinite(wanted[i + 1]) ? wanted[i + 1] : wanted[i] * 1.01F;
    const float tie = wanted[i] + (next - wanted[i]) / 2;
    for (const float value : {wanted[i], std::nextafter(tie, 0.0F), tie, std::nextafter(tie, 1e30F)})
      between.push_back(value);
  }
  std::vector<std::uint16_t> rounded(between.size());
  finish(reinterpret_cast<const std::byte*>(between.data()), reinterpret_cast<std::byte*>(rounded.data()),
         between.size(), wire, ReduceOp::sum, 1);
  for (std::size_t i = 0; i < between.size(); ++i)
    if (type.rounded(between[i]) != rounded[i]) FAIL("rounded " << between[i]);
}

}  // namespace muster::nn::gpu
