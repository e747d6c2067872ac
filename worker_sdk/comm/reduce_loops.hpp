// SPDX-License-Identifier: Apache-2.0
// The loops of reductions, written once with the compiler's vectors. Each instruction set has one file that
// includes this one and defines before: MUSTER_KERNEL, the attributes of a function that is compiled for the
// set (all functions of a loop must have them, or they are not inlined), and MUSTER_VECTOR_BYTES. Everything
// has internal linkage, because a linker must never take the code of one set for another.
#pragma once

#include "worker_sdk/comm/half.hpp"
#include "worker_sdk/comm/reduce_kernels.hpp"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace muster::kernels {
namespace {

#define MUSTER_INLINE gnu::always_inline, MUSTER_KERNEL

template <typename T>
struct VectorOf {
  using Type [[gnu::vector_size(MUSTER_VECTOR_BYTES)]] = T;
};

/// The operations, each for single values and for vectors. Integer sums and products are done unsigned, so
/// they wrap.
struct Sum {
  template <typename T>
  [[MUSTER_INLINE]] static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct Product {
  template <typename T>
  [[MUSTER_INLINE]] static T apply(T a, T b) {
    return static_cast<T>(a * b);
  }
};

struct Min {
  template <typename T>
  [[MUSTER_INLINE]] static T apply(T a, T b) {
    return b < a ? b : a;
  }
};

struct Max {
  template <typename T>
  [[MUSTER_INLINE]] static T apply(T a, T b) {
    return a < b ? b : a;
  }
};

struct And {
  template <typename T>
  [[MUSTER_INLINE]] static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct Or {
  template <typename T>
  [[MUSTER_INLINE]] static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct Xor {
  template <typename T>
  [[MUSTER_INLINE]] static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

/// A pack says how elements come into registers: Stored is an element in memory, Value a single element to
/// compute with, Register holds kElements of them. All access is by memcpy, since a caller's memory may lie
/// at any address.
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  using Register = typename VectorOf<T>::Type;
  static constexpr std::size_t kElements = sizeof(Register) / sizeof(T);

  [[MUSTER_INLINE]] static Register load(const std::byte* from) {
    Register value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }

  [[MUSTER_INLINE]] static void store(std::byte* to, Register value) {
    std::memcpy(to, &value, sizeof(value));
  }

  template <typename Op>
  [[MUSTER_INLINE]] static Register apply(Register a, Register b) {
    return Op::apply(a, b);
  }

  [[MUSTER_INLINE]] static Register divide(Register value, float divisor) {
    return value / static_cast<T>(divisor);
  }
};

/// A pack of one Half or BFloat16, if an instruction set has nothing better; or of one float, to match such a
/// pack.
template <typename T>
struct OneByOne {
  using Stored = T;
  using Value = float;
  using Register = float;
  static constexpr std::size_t kElements = 1;

  [[MUSTER_INLINE]] static float load(const std::byte* from) {
    T stored;
    std::memcpy(&stored, from, sizeof(stored));
    return widen(stored);
  }

  [[MUSTER_INLINE]] static void store(std::byte* to, float value) {
    const T stored = narrow<T>(value);
    std::memcpy(to, &stored, sizeof(stored));
  }

  template <typename Op>
  [[MUSTER_INLINE]] static float apply(float a, float b) {
    return Op::apply(a, b);
  }

  [[MUSTER_INLINE]] static float divide(float value, float divisor) { return value / divisor; }
};

template <>
[[MUSTER_INLINE]] inline float OneByOne<float>::load(const std::byte* from) {
  float value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <>
[[MUSTER_INLINE]] inline void OneByOne<float>::store(std::byte* to, float value) {
  std::memcpy(to, &value, sizeof(value));
}

template <typename Stored>
[[MUSTER_INLINE]] inline auto load_one(const std::byte* from) {
  Stored stored;
  std::memcpy(&stored, from, sizeof(stored));
  if constexpr (is_half<Stored>) {
    return widen(stored);
  } else {
    return stored;
  }
}

template <typename Stored, typename Value>
[[MUSTER_INLINE]] inline void store_one(std::byte* to, Value value) {
  Stored stored;
  if constexpr (is_half<Stored>) {
    stored = narrow<Stored>(value);
  } else {
    stored = value;
  }
  std::memcpy(to, &stored, sizeof(stored));
}

/// Combines kUnroll registers from element `i` on.
template <typename In, typename Out, typename Op, bool Divide, std::size_t kUnroll>
[[MUSTER_INLINE]] inline void combine_registers(std::span<const std::byte* const> sources,
                                                std::span<std::byte* const> results, std::size_t i,
                                                float divisor) {
  constexpr std::size_t kIn = In::kElements * sizeof(typename In::Stored);
  constexpr std::size_t kOut = Out::kElements * sizeof(typename Out::Stored);
  typename In::Register sum[kUnroll];
  const std::byte* source = sources[0] + i * sizeof(typename In::Stored);
#pragma GCC unroll 4
  for (std::size_t k = 0; k < kUnroll; ++k) sum[k] = In::load(source + k * kIn);
  for (std::size_t s = 1; s < sources.size(); ++s) {
    source = sources[s] + i * sizeof(typename In::Stored);
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kUnroll; ++k)
      sum[k] = In::template apply<Op>(sum[k], In::load(source + k * kIn));
  }
  if constexpr (Divide) {
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kUnroll; ++k) sum[k] = In::divide(sum[k], divisor);
  }
  for (std::byte* const result : results) {
    std::byte* const to = result + i * sizeof(typename Out::Stored);
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kUnroll; ++k) Out::store(to + k * kOut, sum[k]);
  }
}

/// The loop over all elements: reads In::Stored, combines in In::Register, which is Out::Register, and writes
/// Out::Stored.
template <typename In, typename Out, typename Op, bool Divide>
[[MUSTER_KERNEL]] void loop(std::span<const std::byte* const> sources, std::span<std::byte* const> results,
                            std::size_t count, float divisor) {
  constexpr std::size_t kUnroll = 4;
  constexpr std::size_t kStep = In::kElements;
  static_assert(kStep == Out::kElements);
  std::size_t i = 0;
  for (; i + kUnroll * kStep <= count; i += kUnroll * kStep)
    combine_registers<In, Out, Op, Divide, kUnroll>(sources, results, i, divisor);
  for (; i + kStep <= count; i += kStep)
    combine_registers<In, Out, Op, Divide, 1>(sources, results, i, divisor);
  for (; i < count; ++i) {
    using Stored = typename In::Stored;
    auto sum = load_one<Stored>(sources[0] + i * sizeof(Stored));
    for (std::size_t s = 1; s < sources.size(); ++s)
      sum = Op::apply(sum, load_one<Stored>(sources[s] + i * sizeof(Stored)));
    if constexpr (Divide) sum /= static_cast<typename In::Value>(divisor);
    for (std::byte* const result : results)
      store_one<typename Out::Stored>(result + i * sizeof(typename Out::Stored), sum);
  }
}

using Row = std::array<Kernels, 8>;

constexpr Kernels& at(Row& row, ReduceOp op) {
  return row[static_cast<std::size_t>(op)];
}

template <typename T>
[[maybe_unused]] constexpr Row integer_row() {
  using Signed = Plain<T>;
  using Unsigned = Plain<std::make_unsigned_t<T>>;
  Row row{};
  at(row, ReduceOp::sum).whole = loop<Unsigned, Unsigned, Sum, false>;
  at(row, ReduceOp::product).whole = loop<Unsigned, Unsigned, Product, false>;
  at(row, ReduceOp::min).whole = loop<Signed, Signed, Min, false>;
  at(row, ReduceOp::max).whole = loop<Signed, Signed, Max, false>;
  at(row, ReduceOp::band).whole = loop<Unsigned, Unsigned, And, false>;
  at(row, ReduceOp::bor).whole = loop<Unsigned, Unsigned, Or, false>;
  at(row, ReduceOp::bxor).whole = loop<Unsigned, Unsigned, Xor, false>;
  return row;
}

template <typename T>
[[maybe_unused]] constexpr Row real_row() {
  Row row{};
  at(row, ReduceOp::sum).whole = loop<Plain<T>, Plain<T>, Sum, false>;
  at(row, ReduceOp::product).whole = loop<Plain<T>, Plain<T>, Product, false>;
  at(row, ReduceOp::min).whole = loop<Plain<T>, Plain<T>, Min, false>;
  at(row, ReduceOp::max).whole = loop<Plain<T>, Plain<T>, Max, false>;
  at(row, ReduceOp::avg).whole = loop<Plain<T>, Plain<T>, Sum, true>;
  at(row, ReduceOp::avg).finish = loop<Plain<T>, Plain<T>, Sum, true>;
  return row;
}

/// Makes the loops of a 16-bit type. Pack converts elements to elements, in any order inside a register;
/// Linear keeps their order; F32 holds partial results, as many as Linear holds elements.
template <typename Pack, typename Linear, typename F32>
constexpr Row half_row() {
  Row row{};
  at(row, ReduceOp::sum).whole = loop<Pack, Pack, Sum, false>;
  at(row, ReduceOp::product).whole = loop<Pack, Pack, Product, false>;
  at(row, ReduceOp::min).whole = loop<Pack, Pack, Min, false>;
  at(row, ReduceOp::max).whole = loop<Pack, Pack, Max, false>;
  at(row, ReduceOp::avg).whole = loop<Pack, Pack, Sum, true>;
  at(row, ReduceOp::sum).partly = loop<Linear, F32, Sum, false>;
  at(row, ReduceOp::product).partly = loop<Linear, F32, Product, false>;
  at(row, ReduceOp::min).partly = loop<Linear, F32, Min, false>;
  at(row, ReduceOp::max).partly = loop<Linear, F32, Max, false>;
  at(row, ReduceOp::avg).partly = loop<Linear, F32, Sum, false>;
  for (Kernels& kernels : row) kernels.finish = loop<F32, Linear, Sum, false>;
  at(row, ReduceOp::avg).finish = loop<F32, Linear, Sum, true>;
  return row;
}

[[maybe_unused]] constexpr Table make_table(Row half, Row bfloat16) {
  Table table{};
  const auto row_of = [&table](DataType type) -> Row& { return table[static_cast<std::size_t>(type)]; };
  row_of(DataType::u8) = integer_row<std::uint8_t>();
  row_of(DataType::i32) = integer_row<std::int32_t>();
  row_of(DataType::i64) = integer_row<std::int64_t>();
  row_of(DataType::f16) = half;
  row_of(DataType::bf16) = bfloat16;
  row_of(DataType::f32) = real_row<float>();
  row_of(DataType::f64) = real_row<double>();
  return table;
}

}  // namespace
}  // namespace muster::kernels
