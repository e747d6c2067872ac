// SPDX-License-Identifier: Apache-2.0
// Units of time as people write them behind a number: 500ms, 90s, 5m, 2h, 1d.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace muster {

/// Returns the milliseconds of one "ms", "s", "m", "h" or "d"; nullopt for any other word.
constexpr std::optional<std::int64_t> milliseconds_of(std::string_view unit) {
  struct Unit {
    std::string_view name;
    std::int64_t ms;
  };

  constexpr std::array<Unit, 5> kUnits{
      {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};
  for (const Unit& known : kUnits)
    if (known.name == unit) return known.ms;
  return std::nullopt;
}

}  // namespace muster
