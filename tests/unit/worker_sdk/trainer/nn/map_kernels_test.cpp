// SPDX-License-Identifier: Apache-2.0
// The kernels of every instruction set that this processor has give what the plain ones give.
#include "worker_sdk/trainer/nn/cpu/map_kernels.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/trainer/nn/maps.hpp"

#include <cstdlib>
#include <string>
#include <vector>

using namespace muster::test;
using namespace muster::nn::cpu;

namespace {

struct Results {
  std::vector<float> floats;
  std::vector<std::uint16_t> signs;
};

constexpr std::size_t kRows = 7;  // not a multiple of what a kernel takes at once

/// Everything that a table computes on one strip.
Results run(const MapKernels& kernels, std::size_t width, bool bf16) {
  const MapFormat format = {false, bf16};
  const MapShape shape = {static_cast<std::int64_t>(width), 1, format};
  const Strip strip = {kRows, width};
  const auto map = [&](std::uint64_t stream) {
    return TestMap(shape, kRows, rounded(random_floats(kRows * width, stream), format));
  };
  const TestMap x = map(1), addend = map(2), dy = map(3), dy2 = map(4), y(shape, kRows), g(shape, kRows),
                dx(shape, kRows);
  const std::vector<float> scale = random_floats(width, 5), shift = random_floats(width, 6),
                           mean = random_floats(width, 7);
  std::vector<float> sums(width), squares(width), totals(width), products(width);
  Results results;
  results.signs.resize(kRows * width / kLanes);
  kernels.statistics(strip, x.data(), sums.data(), squares.data());
  kernels.forward(strip, {x.data(), scale.data(), shift.data(), addend.data(), mean.data(), scale.data(),
                          y.data(), results.signs.data()});
  const BackwardArgs args = {x.data(), dy.data(), dy2.data(), results.signs.data()};
  kernels.backward_sums(strip, args, mean.data(), totals.data(), products.data(), g.data());
  kernels.backward(strip, args, scale.data(), shift.data(), mean.data(), dx.data());
  for (const auto& part : {sums, squares, totals, products, y.nhwc(), g.nhwc(), dx.nhwc()})
    results.floats.insert(results.floats.end(), part.begin(), part.end());
  return results;
}

void compare(const MapKernels& kernels, const MapKernels& base, bool bf16) {
  for (const std::size_t width : {16U, 48U, 64U, 128U}) {
    CAPTURE(width, bf16);
    const Results got = run(kernels, width, bf16);
    const Results wanted = run(base, width, bf16);
    // A product and its sum may be rounded once or twice.
    CHECK(distance(Doubles(wanted.floats.begin(), wanted.floats.end()), got.floats) < (bf16 ? 2e-2 : 1e-5));
    CHECK(got.signs == wanted.signs);
  }
}

}  // namespace

TEST_CASE("kernels of all instruction sets agree") {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    compare(kernels::avx2(false), kernels::base(false), false);
    compare(kernels::avx2(true), kernels::base(true), true);
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
    compare(kernels::avx512(false), kernels::base(false), false);
    compare(kernels::avx512(true), kernels::base(true), true);
  }
#endif
  CHECK(map_kernels(false).forward != nullptr);
}

#ifdef __x86_64__
// Run twice: as it is, and where ONEDNN_MAX_CPU_ISA bounds the instructions.
TEST_CASE("kernels have the instructions that convolutions have", "[instructions]") {
  const std::string used = muster::nn::instruction_set();
  CAPTURE(used);
  for (const bool bf16 : {false, true}) {
    const MapKernels& best = kernels::avx512(bf16);
    const MapKernels& second = kernels::avx2(bf16);
    CHECK((&map_kernels(bf16) == &best) == used.starts_with("avx512_core"));
    CHECK((&map_kernels(bf16) == &second) == used.starts_with("avx2"));
  }
  const char* const bound = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (bound != nullptr && std::string(bound) == "AVX2") CHECK_FALSE(used.starts_with("avx512"));
}
#endif
