// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/core/record_filter.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/base/time_unit.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <tuple>

namespace muster::launcher {
namespace {

using std::chrono::milliseconds;

/// Longer than anything that is looked for, and far from what overflows.
constexpr double kLongestMs = 86'400'000.0 * 36'500;

std::optional<std::int64_t> parse_ago(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto unit = milliseconds_of(text.substr(digits));
  double amount = 0;
  const char* const end = text.data() + digits;
  if (!unit || digits == 0 || std::from_chars(text.data(), end, amount).ptr != end) return std::nullopt;
  const double ago = amount * static_cast<double>(*unit);
  return ago >= 0 && ago <= kLongestMs ? std::optional(static_cast<std::int64_t>(ago)) : std::nullopt;
}

/// Takes `digits` digits off a text, and the character `before` that stands before them (0: none).
std::optional<int> take_digits(std::string_view& text, std::size_t digits, char before) {
  if (before != 0) {
    if (text.empty() || text.front() != before) return std::nullopt;
    text.remove_prefix(1);
  }
  const std::string_view part = text.substr(0, digits);
  if (part.size() != digits || part.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  text.remove_prefix(digits);
  return parse_number<int>(part);
}

/// Reads ".250" into milliseconds; nothing there is 0.
std::optional<int> take_fraction(std::string_view& text) {
  if (text.empty() || text.front() != '.') return 0;
  text.remove_prefix(1);
  const std::size_t size = std::min(text.find_first_not_of("0123456789"), text.size());
  if (size == 0) return std::nullopt;
  std::string digits(text.substr(0, std::min<std::size_t>(size, 3)));
  digits.resize(3, '0');
  text.remove_prefix(size);
  return parse_number<int>(digits);
}

/// Reads the zone at the end: seconds east of UTC.
std::optional<std::int64_t> take_zone(std::string_view& text, std::int64_t local) {
  if (text.empty()) return local;
  if (text == "Z" || text == "z") {
    text = {};
    return 0;
  }
  const bool west = text.front() == '-';
  if (!west && text.front() != '+') return std::nullopt;
  text.remove_prefix(1);
  const auto hours = take_digits(text, 2, 0);
  if (hours && text.starts_with(':')) text.remove_prefix(1);
  const auto minutes = hours ? take_digits(text, 2, 0) : std::nullopt;
  if (!minutes || *hours > 14 || *minutes > 59) return std::nullopt;
  const std::int64_t seconds = *hours * 3600 + *minutes * 60;
  return west ? -seconds : seconds;
}

std::optional<std::int64_t> parse_iso(std::string_view text, std::int64_t local) {
  const auto year = take_digits(text, 4, 0);
  const auto month = year ? take_digits(text, 2, '-') : std::nullopt;
  const auto day = month ? take_digits(text, 2, '-') : std::nullopt;
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  int hour = 0;
  int minute = 0;
  int second = 0;
  int ms = 0;
  if (!text.empty()) {
    const auto hours = take_digits(text, 2, text.front() == ' ' ? ' ' : 'T');
    const auto minutes = hours ? take_digits(text, 2, ':') : std::nullopt;
    if (!minutes) return std::nullopt;
    const auto seconds = text.starts_with(':') ? take_digits(text, 2, ':') : std::optional<int>(0);
    const auto fraction = seconds ? take_fraction(text) : std::nullopt;
    if (!fraction || *hours > 23 || *minutes > 59 || *seconds > 60) return std::nullopt;
    std::tie(hour, minute, second, ms) = std::tuple(*hours, *minutes, *seconds, *fraction);
  }
  const auto zone = take_zone(text, local);
  if (!zone || !text.empty()) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return (days * 86'400 + std::int64_t{3600} * hour + std::int64_t{60} * minute + second - *zone) * 1000 + ms;
}

}  // namespace

bool RecordFilter::wants(const ConsoleRecord& record) const {
  if (since_ms && record.time_ms < *since_ms) return false;
  if (round && record.round != *round) return false;
  return ranks.empty() || std::binary_search(ranks.begin(), ranks.end(), record.rank);
}

std::optional<std::int64_t> parse_since(std::string_view text, std::int64_t now_ms,
                                        std::int64_t zone_offset_s) {
  if (const auto ago = parse_ago(text)) return now_ms - *ago;
  return parse_iso(text, zone_offset_s);
}

}  // namespace muster::launcher
