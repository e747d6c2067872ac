// SPDX-License-Identifier: Apache-2.0
// Known answers: the value of every element of every rank is a function of (rank, index), and what a
// reduction must give is computed here by the plainest loop.
#pragma once

#include "worker_sdk/comm/process_group.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace muster::test {

template <typename T>
constexpr DataType type_of() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return DataType::u8;
  if constexpr (std::is_same_v<T, std::int32_t>) return DataType::i32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DataType::i64;
  if constexpr (std::is_same_v<T, float>) return DataType::f32;
  if constexpr (std::is_same_v<T, double>) return DataType::f64;
}

/// Not representable in few bits, so that the order of additions shows in the result.
template <typename T>
T value_at(int rank, std::size_t index, std::uint32_t salt = 0) {
  std::uint32_t mix =
      static_cast<std::uint32_t>(index) * 2654435761U + static_cast<std::uint32_t>(rank) * 40503U + salt;
  mix ^= mix >> 15;
  mix *= 2246822519U;
  mix ^= mix >> 13;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(static_cast<std::int32_t>(mix)) / static_cast<T>(1 << 20);
  } else {
    return static_cast<T>(mix);
  }
}

template <typename T>
T combine(ReduceOp op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    const auto left = static_cast<std::uint64_t>(static_cast<Unsigned>(a));
    const auto right = static_cast<std::uint64_t>(static_cast<Unsigned>(b));
    if (op == ReduceOp::sum) return static_cast<T>(left + right);
    if (op == ReduceOp::product) return static_cast<T>(left * right);
  } else {
    if (op == ReduceOp::sum) return a + b;
    if (op == ReduceOp::product) return a * b;
  }
  if (op == ReduceOp::min) return b < a ? b : a;
  return a < b ? b : a;
}

template <typename T>
std::vector<T> values_of(int rank, std::size_t count, std::uint32_t salt = 0) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_at<T>(rank, i, salt);
  return values;
}

/// What all_reduce must give, in rank order.
template <typename T>
std::vector<T> reduced(int ranks, std::size_t count, ReduceOp op, std::uint32_t salt = 0) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = value_at<T>(0, i, salt);
    for (int rank = 1; rank < ranks; ++rank) values[i] = combine(op, values[i], value_at<T>(rank, i, salt));
  }
  return values;
}

/// Bit for bit.
template <typename T>
bool same_bits(const T* data, const std::vector<T>& expected) {
  return expected.empty() || std::memcmp(data, expected.data(), expected.size() * sizeof(T)) == 0;
}

}  // namespace muster::test
