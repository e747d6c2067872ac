// SPDX-License-Identifier: Apache-2.0
// Search for infinities and what is not a number, for the report of a run that has failed.
#pragma once

#include "worker_sdk/trainer/nn/cpu/map.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace muster::nn::cpu {

inline bool finite(const float* values, std::size_t count) {
  return std::all_of(values, values + count, [](float v) { return std::isfinite(v); });
}

inline bool finite(const MapShape& shape, const void* map, std::int64_t batch) {
  const std::size_t count = shape.elements(batch);
  if (!shape.format.bf16) return finite(static_cast<const float*>(map), count);
  // An exponent of all ones is an infinity or not a number.
  const auto* bits = static_cast<const std::uint16_t*>(map);
  return std::all_of(bits, bits + count, [](std::uint16_t b) { return (b & 0x7F80U) != 0x7F80U; });
}

}  // namespace muster::nn::cpu
