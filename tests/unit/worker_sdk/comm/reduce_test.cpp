// SPDX-License-Identifier: Apache-2.0
// Every type, operation, alignment, odd size and number of sources against the plainest loop in double or
// 64-bit arithmetic, rounded where reduce.hpp says; for the loops of every instruction set of this machine.
#include "worker_sdk/comm/reduce.hpp"

#include "catch.hpp"
#include "worker_sdk/comm/half.hpp"
#include "worker_sdk/comm/reduce_kernels.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace muster {
namespace {

constexpr std::array kTypes = {DataType::u8,   DataType::i32, DataType::i64, DataType::f16,
                               DataType::bf16, DataType::f32, DataType::f64};
constexpr std::array kOps = {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max,
                             ReduceOp::avg, ReduceOp::band,    ReduceOp::bor, ReduceOp::bxor};
constexpr std::size_t kMaxSources = 8;
constexpr std::byte kCanary{0xa5};

/// Bytes at a chosen distance from an aligned address, between two lines of canaries.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t shift)
      : bytes_(bytes), begin_(64 + shift), memory_(bytes + 192, kCanary) {}

  std::byte* data() { return memory_.data() + begin_; }

  const std::byte* data() const { return memory_.data() + begin_; }

  bool is_intact_around() const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if ((i < begin_ || i >= begin_ + bytes_) && memory_[i] != kCanary) return false;
    return true;
  }

 private:
  std::size_t bytes_;
  std::size_t begin_;
  std::vector<std::byte> memory_;
};

template <typename T>
T read(const std::byte* data, std::size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

std::uint64_t combine_integers(ReduceOp op, std::uint64_t a, std::uint64_t b, DataType type) {
  const auto less = [&](std::uint64_t x, std::uint64_t y) {
    return type == DataType::u8 ? x < y : static_cast<std::int64_t>(x) < static_cast<std::int64_t>(y);
  };
  switch (op) {
    case ReduceOp::product:
      return a * b;
    case ReduceOp::min:
      return less(b, a) ? b : a;
    case ReduceOp::max:
      return less(a, b) ? b : a;
    case ReduceOp::band:
      return a & b;
    case ReduceOp::bor:
      return a | b;
    case ReduceOp::bxor:
      return a ^ b;
    default:
      return a + b;
  }
}

/// Rounded to float after each operation for the types that are combined in f32: a double holds sums,
/// products and quotients of floats with more than twice the digits, so rounding twice rounds as once.
double combine_reals(ReduceOp op, double a, double b, bool is_double) {
  double value = a + b;
  if (op == ReduceOp::product) value = a * b;
  if (op == ReduceOp::min) value = b < a ? b : a;
  if (op == ReduceOp::max) value = a < b ? b : a;
  return is_double ? value : static_cast<double>(static_cast<float>(value));
}

std::uint64_t integer_at(const std::byte* data, std::size_t index, DataType type) {
  if (type == DataType::u8) return read<std::uint8_t>(data, index);
  if (type == DataType::i32) return static_cast<std::uint64_t>(std::int64_t{read<std::int32_t>(data, index)});
  return read<std::uint64_t>(data, index);
}

double real_at(const std::byte* data, std::size_t index, DataType type) {
  if (type == DataType::f16) return static_cast<double>(widen(read<Half>(data, index)));
  if (type == DataType::bf16) return static_cast<double>(widen(read<BFloat16>(data, index)));
  if (type == DataType::f32) return static_cast<double>(read<float>(data, index));
  return read<double>(data, index);
}

using Sources = std::vector<Buffer>;

/// Whether element `index` of `found` is what reducing the sources must give.
bool is_right(const std::byte* found, std::size_t index, const Sources& sources, std::size_t count,
              DataType type, ReduceOp op) {
  const std::byte* const place = found + index * size_of(type);
  if (is_integer(type)) {
    std::uint64_t value = integer_at(sources[0].data(), index, type);
    for (std::size_t s = 1; s < count; ++s)
      value = combine_integers(op, value, integer_at(sources[s].data(), index, type), type);
    return std::memcmp(place, &value, size_of(type)) == 0;  // little-endian, as the formats of the wire
  }
  const bool is_double = type == DataType::f64;
  double value = real_at(sources[0].data(), index, type);
  for (std::size_t s = 1; s < count; ++s)
    value = combine_reals(op, value, real_at(sources[s].data(), index, type), is_double);
  if (op == ReduceOp::avg) value /= static_cast<double>(count);
  if (std::isnan(value)) return std::isnan(real_at(place, 0, type));
  if (is_double) return std::bit_cast<std::uint64_t>(value) == read<std::uint64_t>(place, 0);
  const auto rounded = static_cast<float>(value);
  if (type == DataType::f16) return read<std::uint16_t>(place, 0) == narrow<Half>(rounded).bits;
  if (type == DataType::bf16) return read<std::uint16_t>(place, 0) == narrow<BFloat16>(rounded).bits;
  return std::bit_cast<std::uint32_t>(rounded) == read<std::uint32_t>(place, 0);
}

/// Half of the elements are any bits (NaN, infinities and subnormals among them), half are near one, so that
/// sums and products stay finite and show the order.
void fill(Buffer& buffer, std::size_t count, DataType type, std::mt19937_64& random) {
  std::uniform_real_distribution<float> near_one(-1.5F, 1.5F);
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* const place = buffer.data() + i * size_of(type);
    const std::uint64_t any = random();
    std::memcpy(place, &any, size_of(type));
    if (is_integer(type) || any % 2 == 0) continue;
    const float value = near_one(random);
    const double wide = static_cast<double>(value) * (1 + 0x1p-40);
    const Half half = narrow<Half>(value);
    const BFloat16 brain = narrow<BFloat16>(value);
    if (type == DataType::f16) std::memcpy(place, &half, sizeof(half));
    if (type == DataType::bf16) std::memcpy(place, &brain, sizeof(brain));
    if (type == DataType::f32) std::memcpy(place, &value, sizeof(value));
    if (type == DataType::f64) std::memcpy(place, &wide, sizeof(wide));
  }
}

Sources make_sources(std::size_t count, DataType type, std::size_t shift, std::mt19937_64& random) {
  Sources sources;
  for (std::size_t s = 0; s < kMaxSources; ++s) {
    sources.emplace_back(count * size_of(type), (shift * (s + 1)) % 64);
    fill(sources.back(), count, type, random);
  }
  return sources;
}

std::vector<const std::byte*> places(const Sources& sources, std::size_t begin, std::size_t end) {
  std::vector<const std::byte*> all;
  for (std::size_t s = begin; s < end; ++s) all.push_back(sources[s].data());
  return all;
}

int count_wrong(const Buffer& found, const Sources& sources, std::size_t ranks, std::size_t count,
                DataType type, ReduceOp op) {
  int wrong = found.is_intact_around() ? 0 : 1;
  for (std::size_t i = 0; i < count; ++i)
    wrong += is_right(found.data(), i, sources, ranks, type, op) ? 0 : 1;
  return wrong;
}

template <typename Check>
void for_each_type_and_op(Check check) {
  for (const DataType type : kTypes)
    for (const ReduceOp op : kOps) {
      if (!is_defined(op, type)) continue;
      INFO(name_of(type) << " " << name_of(op));
      for (const kernels::Set& set : kernels::sets()) {
        INFO(set.name);
        check(*set.table, type, op);
      }
    }
}

TEST_CASE("reduce gives the known answer for every type, operation, alignment, size and number of sources") {
  std::mt19937_64 random(1);
  // Around a vector of each width and around a block.
#ifdef MUSTER_SANITIZED
  const std::vector<std::size_t> counts = {0, 1, 33, 127};
  const std::vector<std::size_t> shifts = {0, 1};
#else
  const std::vector<std::size_t> counts = {0, 1, 7, 8, 33, 127, 2051};
  const std::vector<std::size_t> shifts = {0, 1, 4, 30};
#endif
  for (const std::size_t count : counts)
    for (const std::size_t shift : shifts)
      for_each_type_and_op([&](const kernels::Table& table, DataType type, ReduceOp op) {
        const Sources sources = make_sources(count, type, shift, random);
        for (const std::size_t ranks : {1U, 2U, 3U, 5U, 8U}) {
          Buffer first(count * size_of(type), shift);
          Buffer second(count * size_of(type), 3 * shift);
          const std::array<std::byte*, 2> results{first.data(), second.data()};
          kernels::reduce(table, places(sources, 0, ranks), results, count, type, op);
          INFO(ranks << " sources of " << count << ", shifted by " << shift);
          if (ranks == 1) {  // a copy, NaN and all
            CHECK((count == 0 || std::memcmp(first.data(), sources[0].data(), count * size_of(type)) == 0));
          } else {
            CHECK(count_wrong(first, sources, ranks, count, type, op) == 0);
          }
          CHECK((count == 0 || std::memcmp(first.data(), second.data(), count * size_of(type)) == 0));
        }
      });
}

TEST_CASE("the result of reduce may lie in any of the sources") {
  std::mt19937_64 random(2);
  const std::size_t count = 3001;
  for_each_type_and_op([&](const kernels::Table& table, DataType type, ReduceOp op) {
    const Sources sources = make_sources(count, type, 2, random);
    for (std::size_t target = 0; target < 4; ++target) {
      Sources copies = sources;
      std::byte* const place = copies[target].data();
      kernels::reduce(table, places(copies, 0, 4), std::span(&place, 1), count, type, op);
      INFO("in source " << target);
      CHECK(count_wrong(copies[target], sources, 4, count, type, op) == 0);
    }
  });
}

TEST_CASE("reducing in pieces rounds and divides once, at the end") {
  std::mt19937_64 random(3);
  const std::size_t count = 2500;
  for_each_type_and_op([&](const kernels::Table& table, DataType type, ReduceOp op) {
    const Sources sources = make_sources(count, type, 5, random);
    const DataType wide = partial_type(type);
    // Of three ranks, one host has the first two: the order is the same as in one go.
    Buffer pair(count * size_of(wide), 1);
    Buffer single(count * size_of(wide), 2);
    kernels::reduce_partly(table, places(sources, 0, 2), pair.data(), count, type, op);
    kernels::reduce_partly(table, places(sources, 2, 3), single.data(), count, type, op);
    const std::array<const std::byte*, 2> partial{pair.data(), single.data()};
    std::byte* const sum = pair.data();
    kernels::reduce(table, partial, std::span(&sum, 1), count, wide, partial_op(op));
    Buffer apart(count * size_of(type), 3);
    kernels::finish(table, pair.data(), apart.data(), count, type, op, 3);
    CHECK(count_wrong(apart, sources, 3, count, type, op) == 0);
    kernels::finish(table, pair.data(), pair.data(), count, type, op, 3);
    CHECK(std::memcmp(pair.data(), apart.data(), count * size_of(type)) == 0);
    CHECK(pair.is_intact_around());
  });
}

TEST_CASE("many small f16 values are not lost in a large sum") {
  // 2048 + 1 rounds to 2048 in f16, so rounding after each addition would never get away from it.
  const Half large = narrow<Half>(2048.0F);
  const Half one = narrow<Half>(1.0F);
  std::vector<const std::byte*> sources{reinterpret_cast<const std::byte*>(&large)};
  for (int i = 0; i < 8; ++i) sources.push_back(reinterpret_cast<const std::byte*>(&one));
  Half sum{};
  auto* const place = reinterpret_cast<std::byte*>(&sum);
  reduce(sources, std::span(&place, 1), 1, DataType::f16, ReduceOp::sum);
  CHECK(widen(sum) == 2056.0F);
}

}  // namespace
}  // namespace muster
