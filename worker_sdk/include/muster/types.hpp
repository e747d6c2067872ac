// SPDX-License-Identifier: Apache-2.0
// The types and operations of collectives. The numbers are those of muster.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace muster {

/// Element type of a buffer. f16 is IEEE 754 binary16; bf16 is the upper half of an IEEE 754 binary32. Both
/// are reduced in f32 and rounded once at the end, to nearest even.
enum class DataType : std::uint8_t { u8, i32, i64, f16, bf16, f32, f64 };

/// The way in which elements are combined. avg is the sum divided by the number of ranks, for f16, bf16, f32
/// and f64 only; band, bor and bxor are bit by bit, for u8, i32 and i64 only. Integer sums and products wrap.
/// min and max of a NaN are unspecified.
enum class ReduceOp : std::uint8_t { sum, product, min, max, avg, band, bor, bxor };

/// The bytes of one element; 0 for a value that is no DataType.
constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::u8:
      return 1;
    case DataType::f16:
    case DataType::bf16:
      return 2;
    case DataType::i32:
    case DataType::f32:
      return 4;
    case DataType::i64:
    case DataType::f64:
      return 8;
  }
  return 0;
}

constexpr bool is_integer(DataType type) {
  return type == DataType::u8 || type == DataType::i32 || type == DataType::i64;
}

constexpr bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
}

/// Whether `op` can be applied to elements of `type`.
constexpr bool is_defined(ReduceOp op, DataType type) {
  if (size_of(type) == 0 || op > ReduceOp::bxor) return false;
  if (op == ReduceOp::avg) return !is_integer(type);
  return !is_bitwise(op) || is_integer(type);
}

/// The name of a type for messages: "f32".
constexpr std::string_view name_of(DataType type) {
  constexpr std::string_view kNames[] = {"u8", "i32", "i64", "f16", "bf16", "f32", "f64"};
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(kNames) ? kNames[index] : "unknown type";
}

/// The name of an operation for messages: "sum".
constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "product", "min", "max", "avg", "band", "bor", "bxor"};
  const auto index = static_cast<std::size_t>(op);
  return index < std::size(kNames) ? kNames[index] : "unknown operation";
}

}  // namespace muster
