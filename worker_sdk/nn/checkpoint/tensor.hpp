// SPDX-License-Identifier: Apache-2.0
// Tensors as files hold them: a name, a type, a shape, bytes in row-major order, little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::checkpoint {

/// Element types of safetensors that fill whole bytes. Checkpoints use f32 and i64; the others are met in
/// files of other programs.
enum class Type : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  u16,
  i16,
  f16,
  bf16,
  u32,
  i32,
  f32,
  u64,
  i64,
  f64
};

/// Bytes of one element.
std::size_t size_of(Type type);
/// The name of a type in the format: "F32".
std::string_view name_of(Type type);
std::optional<Type> type_named(std::string_view name);

using Shape = std::vector<std::int64_t>;

/// "[64, 3, 7, 7]"; "[]" for a single number.
std::string text_of(const Shape& shape);

/// Product of the extents; nothing when one is negative or it is above 2^60.
std::optional<std::uint64_t> elements_of(const Shape& shape);

/// Consecutive elements of a tensor, counted in row-major order.
struct Slice {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;

  std::uint64_t end() const { return begin + count; }

  bool operator==(const Slice&) const = default;
};

/// A tensor to be written, or a slice of it: memory of the caller.
struct TensorView {
  std::string name;
  Type type = Type::f32;
  Shape shape;                 ///< of the whole tensor
  const void* data = nullptr;  ///< its elements, or those of the slice
  std::optional<Slice> slice = std::nullopt;
};

/// A place for the floats of a file, or for a slice of them: memory of the caller.
struct Destination {
  std::string name;
  Shape shape;              ///< of the whole tensor
  float* values = nullptr;  ///< for its elements, or for those of the slice
  std::optional<Slice> slice = std::nullopt;
};

/// The elements of `tensor`, a TensorView or a Destination, that lie in memory. Nothing of a shape that no
/// tensor has.
template <typename Tensor>
Slice slice_of(const Tensor& tensor) {
  return tensor.slice.value_or(Slice{0, elements_of(tensor.shape).value_or(0)});
}

}  // namespace muster::checkpoint
