// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/values.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace muster::contract {
namespace {

std::uint32_t mix(std::uint32_t rank, std::uint64_t index, std::uint32_t salt) {
  std::uint32_t value = static_cast<std::uint32_t>(index) * 2654435761U + rank * 40503U + salt * 97U + 1;
  value ^= value >> 15;
  value *= 2246822519U;
  value ^= value >> 13;
  return value;
}

/// Round to nearest even, by hand: the tests must not use what they test.
std::uint16_t to_f16(float number) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(number) ? 0x8000 : 0);
  const double size = std::fabs(static_cast<double>(number));
  if (!std::isfinite(number) || size >= 65520) return static_cast<std::uint16_t>(sign | 0x7C00);
  int exponent = 0;
  std::frexp(size, &exponent);
  // Ten bits after the first one; below 2^-14 the last bit is 2^-24 throughout.
  const int last = size == 0 || exponent - 1 < -14 ? -24 : exponent - 1 - 10;
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, -last)));
  // A carry into the next power of two is a carry into the exponent's field.
  const std::uint32_t base = static_cast<std::uint32_t>(last + 24) << 10;
  return static_cast<std::uint16_t>(sign | (base + units));
}

float from_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double size = exponent == 31  ? HUGE_VAL
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return static_cast<float>((bits & 0x8000) != 0 ? -size : size);
}

std::uint16_t to_bf16(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

template <typename T>
void put(Bytes& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

template <typename T>
T at(const Bytes& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

void put_float(DataType type, Bytes& bytes, std::size_t index, double value) {
  if (type == DataType::f16) return put(bytes, index, to_f16(static_cast<float>(value)));
  if (type == DataType::bf16) return put(bytes, index, to_bf16(static_cast<float>(value)));
  if (type == DataType::f32) return put(bytes, index, static_cast<float>(value));
  put(bytes, index, value);
}

double float_at(DataType type, const Bytes& bytes, std::size_t index) {
  if (type == DataType::f16) return from_f16(at<std::uint16_t>(bytes, index));
  if (type == DataType::bf16) return from_bf16(at<std::uint16_t>(bytes, index));
  if (type == DataType::f32) return at<float>(bytes, index);
  return at<double>(bytes, index);
}

void put_exact(DataType type, Bytes& bytes, std::size_t index, std::int64_t value) {
  if (type == DataType::u8) return put(bytes, index, static_cast<std::uint8_t>(value));
  if (type == DataType::i32) return put(bytes, index, static_cast<std::int32_t>(value));
  if (type == DataType::i64) return put(bytes, index, value);
  put_float(type, bytes, index, static_cast<double>(value));
}

std::int64_t as_type(DataType type, std::uint64_t value) {
  if (type == DataType::u8) return static_cast<std::uint8_t>(value);
  if (type == DataType::i32) return static_cast<std::int32_t>(value);
  return static_cast<std::int64_t>(value);
}

std::int64_t exact_at(const Values& values, int rank, std::size_t index) {
  const std::uint32_t bits = mix(static_cast<std::uint32_t>(rank), index, values.salt);
  if (is_integer(values.type)) return as_type(values.type, bits * std::uint64_t{0x100000001B3});
  // Eight factors or nine-valued summands stay below 2^8, what bf16 holds exactly.
  if (values.op == ReduceOp::product) return std::int64_t{1} << bits % 2;
  const std::int64_t small = static_cast<std::int64_t>(bits % 5) - 2;
  return values.op == ReduceOp::avg ? small * values.size : small * 4 + rank % 4;
}

std::int64_t combine(const Values& values, std::int64_t a, std::int64_t b) {
  const auto left = static_cast<std::uint64_t>(a);
  const auto right = static_cast<std::uint64_t>(b);
  switch (values.op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return as_type(values.type, left + right);
    case ReduceOp::product:
      return as_type(values.type, left * right);
    case ReduceOp::min:
      return b < a ? b : a;
    case ReduceOp::max:
      return a < b ? b : a;
    case ReduceOp::band:
      return as_type(values.type, left & right);
    case ReduceOp::bor:
      return as_type(values.type, left | right);
    case ReduceOp::bxor:
      return as_type(values.type, left ^ right);
  }
  return 0;
}

template <typename T>
T combine_rough(ReduceOp op, T a, T b) {
  if (op == ReduceOp::product) return a * b;
  if (op == ReduceOp::min) return b < a ? b : a;
  if (op == ReduceOp::max) return a < b ? b : a;
  return a + b;
}

/// T is what the type is reduced in.
template <typename T>
Bytes rough_reduced_in(const Values& values, std::size_t count) {
  Bytes result(count * size_of(values.type));
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < values.size; ++rank) inputs.push_back(rough(values, rank, count));
  for (std::size_t i = 0; i < count; ++i) {
    T sum = static_cast<T>(float_at(values.type, inputs[0], i));
    for (std::size_t rank = 1; rank < inputs.size(); ++rank)
      sum = combine_rough(values.op, sum, static_cast<T>(float_at(values.type, inputs[rank], i)));
    if (values.op == ReduceOp::avg) sum /= static_cast<T>(values.size);
    put_float(values.type, result, i, static_cast<double>(sum));
  }
  return result;
}

}  // namespace

Bytes exact(const Values& values, int rank, std::size_t count, std::size_t first) {
  Bytes bytes(count * size_of(values.type));
  for (std::size_t i = 0; i < count; ++i) put_exact(values.type, bytes, i, exact_at(values, rank, first + i));
  return bytes;
}

Bytes exact_reduced(const Values& values, std::size_t count, std::size_t first) {
  Bytes bytes(count * size_of(values.type));
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t result = exact_at(values, 0, first + i);
    for (int rank = 1; rank < values.size; ++rank)
      result = combine(values, result, exact_at(values, rank, first + i));
    put_exact(values.type, bytes, i, values.op == ReduceOp::avg ? result / values.size : result);
  }
  return bytes;
}

Bytes rough(const Values& values, int rank, std::size_t count) {
  Bytes bytes(count * size_of(values.type));
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::int32_t>(mix(static_cast<std::uint32_t>(rank), i, values.salt));
    put_float(values.type, bytes, i, static_cast<double>(bits) / (1 << 30));
  }
  return bytes;
}

Bytes rough_reduced(const Values& values, std::size_t count) {
  return values.type == DataType::f64 ? rough_reduced_in<double>(values, count)
                                      : rough_reduced_in<float>(values, count);
}

std::size_t far_apart(DataType type, const Bytes& a, const Bytes& b) {
  const double tolerance = size_of(type) == 2 ? 0.04 : 1.25e-4;
  std::size_t count = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; count == 0 && i < a.size() / size_of(type); ++i) {
    const double left = float_at(type, a, i);
    const double right = float_at(type, b, i);
    if (!(std::fabs(left - right) <= tolerance * (1 + std::fabs(right)))) ++count;
  }
  return count;
}

}  // namespace muster::contract
