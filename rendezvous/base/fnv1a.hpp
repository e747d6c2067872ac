// SPDX-License-Identifier: Apache-2.0
// The FNV-1a hash, for checks that two sides hold the same data or text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster {

inline constexpr std::uint64_t kFnvStart = 0xCBF29CE484222325U;

/// One step of FNV-1a, which mixes a byte or any other number into `hash`.
constexpr std::uint64_t fnv1a_step(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x100000001B3U;
}

/// The 64-bit FNV-1a hash, which finds accidental differences and does not resist an adversary.
inline std::uint64_t fnv1a(const void* data, std::size_t bytes) {
  const auto* byte = static_cast<const unsigned char*>(data);
  std::uint64_t hash = kFnvStart;
  for (std::size_t i = 0; i < bytes; ++i) hash = fnv1a_step(hash, byte[i]);
  return hash;
}

inline std::uint64_t fnv1a(std::string_view text) {
  return fnv1a(text.data(), text.size());
}

}  // namespace muster
