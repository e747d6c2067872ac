// SPDX-License-Identifier: Apache-2.0
// The kernels of every instruction set that this processor has give what the plain ones give.
#include "worker_sdk/nn/cpu/map_kernels.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/maps.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/cpu/row_kernels.hpp"

#include <cstdlib>
#include <string>
#include <vector>

namespace map_kernels_test {

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

/// Everything that a table of row kernels computes, one behind the other.
std::vector<float> run(const RowKernels& kernels, std::size_t width) {
  const std::vector<float> x = random_floats(3 * kRows * width, 1), dy = random_floats(x.size(), 2),
                           scale = random_floats(width, 3), shift = random_floats(width, 4);
  const std::size_t count = kRows * width;
  std::vector<float> results;
  const auto keep = [&](std::size_t values, const auto& call) {
    results.resize(results.size() + values);
    call(results.data() + results.size() - values);
  };
  keep(count, [&](float* to) { kernels.relu(x.data(), count, to); });
  keep(count, [&](float* to) { kernels.relu_backward(x.data(), dy.data(), count, to); });
  keep(count, [&](float* to) { kernels.gelu(x.data(), count, to); });
  keep(count, [&](float* to) { kernels.gelu_backward(x.data(), dy.data(), count, to); });
  keep(count, [&](float* to) { kernels.add(x.data(), dy.data(), count, to); });
  keep(width, [&](float* to) { kernels.sum_rows(x.data(), kRows, width, 3 * width, 0.5F, to); });
  keep(count, [&](float* to) { kernels.repeat_row(x.data(), kRows, width, 0.5F, to); });
  const NormRows norm = {kRows, width, scale.data(), shift.data()};
  std::vector<float> moments(2 * kRows), sums(2 * width);
  keep(count, [&](float* to) { kernels.norm(norm, x.data(), to, moments.data()); });
  keep(count, [&](float* to) {
    kernels.norm_backward(norm, x.data(), dy.data(), moments.data(), to, sums.data(), &sums[width]);
  });
  results.insert(results.end(), sums.begin(), sums.end());
  const HeadRows head = {kRows, width, width, 3 * width, 0.3F};
  std::vector<float> levels(kRows), scratch(kernels.attention_scratch(head));
  keep(count, [&](float* to) { kernels.attend(head, x.data(), to, levels.data(), scratch.data()); });
  keep(3 * count, [&](float* to) {
    kernels.attend_backward(head, x.data(), dy.data(), levels.data(), to, scratch.data());
  });
  return results;
}

void compare(const RowKernels& kernels) {
  for (const std::size_t width : {3U, 16U, 50U, 112U}) {
    CAPTURE(width);
    const std::vector<float> wanted = run(kernels::base_rows(), width);
    CHECK(distance(Doubles(wanted.begin(), wanted.end()), run(kernels, width)) < 1e-4);
  }
}

}  // namespace

TEST_CASE("kernels of all instruction sets agree") {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    compare(kernels::avx2(false), kernels::base(false), false);
    compare(kernels::avx2(true), kernels::base(true), true);
    compare(kernels::avx2_rows());
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
    compare(kernels::avx512(false), kernels::base(false), false);
    compare(kernels::avx512(true), kernels::base(true), true);
    compare(kernels::avx512_rows());
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
  CHECK((&row_kernels() == &kernels::avx512_rows()) == used.starts_with("avx512_core"));
  CHECK((&row_kernels() == &kernels::avx2_rows()) == used.starts_with("avx2"));
  const char* const bound = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (bound != nullptr && std::string(bound) == "AVX2") CHECK_FALSE(used.starts_with("avx512"));
}
#endif

}  // namespace map_kernels_test
