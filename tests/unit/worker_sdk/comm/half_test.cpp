// SPDX-License-Identifier: Apache-2.0
// The formats of 16 bits, all 65,536 values of each, against double arithmetic; by the scalar functions and
// by the loops of every instruction set that this machine has.
#include "worker_sdk/comm/half.hpp"

#include "catch.hpp"
#include "worker_sdk/comm/reduce.hpp"
#include "worker_sdk/comm/reduce_kernels.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace muster {
namespace {

constexpr int kValues = 1 << 16;

/// What the format says that the bits mean.
double meaning(Half value) {
  const int exponent = value.bits >> 10 & 0x1f;
  const int fraction = value.bits & 0x3ff;
  double magnitude = std::ldexp(fraction, -24);
  if (exponent > 0) magnitude = std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) magnitude = fraction == 0 ? HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  return (value.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double meaning(BFloat16 value) {
  const int exponent = value.bits >> 7 & 0xff;
  const int fraction = value.bits & 0x7f;
  double magnitude = std::ldexp(fraction, -133);
  if (exponent > 0) magnitude = std::ldexp(128 + fraction, exponent - 134);
  if (exponent == 255) magnitude = fraction == 0 ? HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  return (value.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <typename T>
constexpr DataType kType = std::is_same_v<T, Half> ? DataType::f16 : DataType::bf16;

template <typename T>
T from_bits(int bits) {
  return {static_cast<std::uint16_t>(bits)};
}

template <typename T>
std::vector<T> all_values() {
  std::vector<T> values;
  values.reserve(kValues);
  for (int bits = 0; bits < kValues; ++bits) values.push_back(from_bits<T>(bits));
  return values;
}

struct Rounding {
  float from;
  std::uint16_t to;
};

/// Every finite value, every tie between neighbours and what lies directly beside the tie, up to infinity.
template <typename T>
std::vector<Rounding> roundings() {
  const int infinity = std::is_same_v<T, Half> ? 0x7c00 : 0x7f80;
  std::vector<Rounding> all;
  for (int bits = 0; bits < infinity; ++bits) {
    const double low = meaning(from_bits<T>(bits));
    // Beyond the largest value the spacing goes on as if there were no end.
    const double high =
        bits + 1 < infinity ? meaning(from_bits<T>(bits + 1)) : 2 * low - meaning(from_bits<T>(bits - 1));
    const auto tie = static_cast<float>((low + high) / 2);
    const int even = bits % 2 == 0 ? bits : bits + 1;
    for (const int sign : {0, 0x8000}) {
      const float factor = sign == 0 ? 1.0F : -1.0F;
      const auto add = [&](float value, int to) {
        all.push_back({value * factor, static_cast<std::uint16_t>(to | sign)});
      };
      add(static_cast<float>(low), bits);
      add(std::nextafter(tie, 0.0F), bits);
      add(tie, even);
      add(std::nextafter(tie, HUGE_VALF), bits + 1);
    }
  }
  const auto past = static_cast<std::uint16_t>(infinity);
  all.push_back({HUGE_VALF, past});
  all.push_back({-HUGE_VALF, static_cast<std::uint16_t>(past | 0x8000)});
  all.push_back({std::numeric_limits<float>::max(), past});
  all.push_back({std::numeric_limits<float>::denorm_min(), 0});
  return all;
}

template <typename T>
int count_wrong_widenings(const std::vector<float>& wide) {
  int wrong = 0;
  for (int bits = 0; bits < kValues; ++bits) {
    const double right = meaning(from_bits<T>(bits));
    const float found = wide[static_cast<std::size_t>(bits)];
    const bool same_sign = std::signbit(found) == ((bits & 0x8000) != 0);
    const bool same = std::isnan(right) ? std::isnan(found) : static_cast<double>(found) == right;
    wrong += same && same_sign ? 0 : 1;
  }
  return wrong;
}

template <typename T>
void check_format() {
  const std::vector<T> values = all_values<T>();
  const std::vector<Rounding> cases = roundings<T>();
  std::vector<float> sources;
  sources.reserve(cases.size() + 1);
  for (const Rounding& rounding : cases) sources.push_back(rounding.from);
  const float signalling = std::bit_cast<float>(0xff80'0001U);
  sources.push_back(signalling);

  std::vector<float> wide;
  wide.reserve(values.size());
  for (const T value : values) wide.push_back(widen(value));
  CHECK(count_wrong_widenings<T>(wide) == 0);
  int wrong = 0;
  for (const Rounding& rounding : cases) wrong += narrow<T>(rounding.from).bits == rounding.to ? 0 : 1;
  CHECK(wrong == 0);
  CHECK(std::isnan(meaning(narrow<T>(signalling))));

  for (const kernels::Set& set : kernels::sets()) {
    INFO(set.name);
    std::vector<float> found(values.size());
    const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
    kernels::reduce_partly(*set.table, std::span(&bytes, 1), reinterpret_cast<std::byte*>(found.data()),
                           values.size(), kType<T>, ReduceOp::sum);
    CHECK(count_wrong_widenings<T>(found) == 0);
    std::vector<T> rounded(sources.size());
    kernels::finish(*set.table, reinterpret_cast<const std::byte*>(sources.data()),
                    reinterpret_cast<std::byte*>(rounded.data()), sources.size(), kType<T>, ReduceOp::sum, 1);
    wrong = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) wrong += rounded[i].bits == cases[i].to ? 0 : 1;
    CHECK(wrong == 0);
    CHECK(rounded.back().bits == narrow<T>(signalling).bits);
  }
}

TEST_CASE("f16 is widened and rounded as IEEE 754 says, whatever the value") {
  check_format<Half>();
}

TEST_CASE("bf16 is widened and rounded as IEEE 754 says, whatever the value") {
  check_format<BFloat16>();
}

TEST_CASE("a NaN stays one through both formats") {
  for (int bits = 0x7c01; bits <= 0x7fff; ++bits)
    CHECK((narrow<Half>(widen(from_bits<Half>(bits))).bits & 0x7fff) == (bits | 0x0200));
  for (int bits = 0x7f81; bits <= 0x7fff; ++bits)
    CHECK((narrow<BFloat16>(widen(from_bits<BFloat16>(bits))).bits & 0x7fff) == (bits | 0x0040));
}

}  // namespace
}  // namespace muster
