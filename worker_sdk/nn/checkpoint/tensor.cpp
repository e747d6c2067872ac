// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/tensor.hpp"

#include <array>

namespace muster::checkpoint {
namespace {

struct TypeFacts {
  Type type;
  std::size_t bytes;
  std::string_view name;
};

constexpr std::array kTypes{
    TypeFacts{Type::boolean, 1, "BOOL"},    TypeFacts{Type::u8, 1, "U8"},
    TypeFacts{Type::i8, 1, "I8"},           TypeFacts{Type::f8_e5m2, 1, "F8_E5M2"},
    TypeFacts{Type::f8_e4m3, 1, "F8_E4M3"}, TypeFacts{Type::u16, 2, "U16"},
    TypeFacts{Type::i16, 2, "I16"},         TypeFacts{Type::f16, 2, "F16"},
    TypeFacts{Type::bf16, 2, "BF16"},       TypeFacts{Type::u32, 4, "U32"},
    TypeFacts{Type::i32, 4, "I32"},         TypeFacts{Type::f32, 4, "F32"},
    TypeFacts{Type::u64, 8, "U64"},         TypeFacts{Type::i64, 8, "I64"},
    TypeFacts{Type::f64, 8, "F64"},
};

}  // namespace

std::size_t size_of(Type type) {
  return kTypes[static_cast<std::size_t>(type)].bytes;
}

std::string_view name_of(Type type) {
  return kTypes[static_cast<std::size_t>(type)].name;
}

std::optional<Type> type_named(std::string_view name) {
  for (const TypeFacts& facts : kTypes)
    if (facts.name == name) return facts.type;
  return std::nullopt;
}

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

std::optional<std::uint64_t> elements_of(const Shape& shape) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    const auto factor = static_cast<std::uint64_t>(extent);
    if (factor != 0 && count > kMost / factor) return std::nullopt;
    count *= factor;
  }
  return count;
}

}  // namespace muster::checkpoint
