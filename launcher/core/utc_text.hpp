// SPDX-License-Identifier: Apache-2.0
// A time of day for files and people.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace muster::launcher {

/// Returns "2026-11-28T04:00:00.123Z" for milliseconds since 1970.
inline std::string utc_text(std::int64_t time_ms) {
  using namespace std::chrono;
  const sys_time<milliseconds> time{milliseconds(time_ms)};
  const sys_days day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss<milliseconds> clock(time - day);
  char text[200];
  std::snprintf(
      text, sizeof text, "%04d-%02u-%02uT%02lld:%02lld:%02lld.%03lldZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<long long>(clock.hours().count()), static_cast<long long>(clock.minutes().count()),
      static_cast<long long>(clock.seconds().count()), static_cast<long long>(clock.subseconds().count()));
  return text;
}

}  // namespace muster::launcher
