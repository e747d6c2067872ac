// SPDX-License-Identifier: Apache-2.0
// Defines which C++ types are elements of buffers, and which ranges are buffers.
#pragma once

#include "muster/abi/types.h"
#include "muster/cxx20.hpp"
#include "muster/types.hpp"

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>

namespace muster {
inline namespace v0 {

/// An IEEE 754 binary16 as bits.
struct f16 {
  std::uint16_t bits = 0;
  friend bool operator==(f16, f16) = default;
};

/// The upper half of an IEEE 754 binary32.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;

  /// Rounds to nearest even; a NaN stays one.
  explicit bf16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    bits = static_cast<std::uint16_t>(value != value ? (wide >> 16) | 0x40U
                                                     : (wide + 0x7FFFU + ((wide >> 16) & 1U)) >> 16);
  }

  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

  friend bool operator==(bf16, bf16) = default;
};

namespace detail {

template <class T>
concept ByteElement = std::same_as<T, std::uint8_t> || std::same_as<T, std::byte>;

template <class T, std::size_t bytes>
concept IntegerElement = std::signed_integral<T> && sizeof(T) == bytes;

}  // namespace detail

/// The DataType of a C++ type. Specialize it for a type of your own with the same bytes: `value` is the
/// DataType.
template <class T>
struct element_type {};

template <detail::ByteElement T>
struct element_type<T> : std::integral_constant<DataType, DataType::u8> {};

template <detail::IntegerElement<4> T>
struct element_type<T> : std::integral_constant<DataType, DataType::i32> {};

template <detail::IntegerElement<8> T>
struct element_type<T> : std::integral_constant<DataType, DataType::i64> {};

template <>
struct element_type<f16> : std::integral_constant<DataType, DataType::f16> {};

template <>
struct element_type<bf16> : std::integral_constant<DataType, DataType::bf16> {};

template <>
struct element_type<float> : std::integral_constant<DataType, DataType::f32> {};

template <>
struct element_type<double> : std::integral_constant<DataType, DataType::f64> {};

template <class T>
concept Element = requires {
  { element_type<std::remove_const_t<T>>::value } -> std::convertible_to<DataType>;
};

/// A range of elements one after another: std::span, std::vector, std::array, a C array.
template <class R>
concept Buffer = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    Element<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

template <class R>
using buffer_element_t = std::remove_const_t<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

/// A buffer that can be written.
template <class R>
concept MutableBuffer =
    Buffer<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

/// The buffer of a result for a given `In`: it can be written and has the same elements.
template <class Out, class In>
concept MatchingBuffer =
    Buffer<In> && MutableBuffer<Out> && std::same_as<buffer_element_t<In>, buffer_element_t<Out>>;

/// A buffer for started calls: it does not own elements that end with the call, as a temporary vector does.
template <class R>
concept LastingBuffer = Buffer<R> && std::ranges::borrowed_range<R>;

template <class R>
concept LastingMutableBuffer = MutableBuffer<R> && std::ranges::borrowed_range<R>;

template <class Out, class In>
concept LastingMatch = MatchingBuffer<Out, In> && std::ranges::borrowed_range<Out>;

namespace detail {

template <class R>
constexpr muster_dtype dtype_of() {
  return static_cast<muster_dtype>(element_type<buffer_element_t<R>>::value);
}

}  // namespace detail
}  // namespace v0
}  // namespace muster
