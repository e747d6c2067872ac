// SPDX-License-Identifier: Apache-2.0
// Which records of a console are wanted. Pure.
#pragma once

#include "launcher/console/core/console_record.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace muster::launcher {

/// Each record is judged by itself, because a clock that was set back makes later ones look older.
struct RecordFilter {
  /// In ascending order; empty: all ranks, and our own messages, too.
  std::vector<int> ranks{};
  /// Of this round only, without our own messages.
  std::optional<int> round{};
  /// Not older than this, in milliseconds since 1970.
  std::optional<std::int64_t> since_ms{};

  bool wants(const ConsoleRecord& record) const;
};

/// Reads a point in time: "90s", "10m", "2h", "1d" or "500ms" before `now_ms`, or "2026-11-28T14:05",
/// "2026-11-28T14:05:30.250" in the zone that is `zone_offset_s` seconds east of UTC, "...Z" in UTC,
/// "...+01:00" in another zone, or a day "2026-11-28". Returns milliseconds since 1970; nullopt for anything
/// else.
std::optional<std::int64_t> parse_since(std::string_view text, std::int64_t now_ms,
                                        std::int64_t zone_offset_s);

}  // namespace muster::launcher
