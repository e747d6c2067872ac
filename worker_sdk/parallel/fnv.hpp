// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

inline constexpr std::uint64_t kFnvStart = 0xCBF29CE484222325U;

/// FNV-1a, 64 bits: finds accidents, does not resist an adversary. `hash` continues an earlier one.
inline std::uint64_t fnv1a(const void* data, std::size_t bytes, std::uint64_t hash = kFnvStart) {
  const auto* byte = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * 0x100000001B3U;
  return hash;
}

}  // namespace muster
