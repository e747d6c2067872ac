// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstddef>

namespace muster {

std::string and_more(std::size_t left) {
  return left == 0 ? "" : " and " + std::to_string(left) + " more";
}

std::string rank_list(std::vector<int> ranks, std::size_t most) {
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < ranks.size(); ++ranges) {
    if (ranges == most) return text + and_more(ranks.size() - i);
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

namespace {

constexpr unsigned kMostTasks = 1 << 20;
constexpr std::size_t kMostNodes = 1 << 20;

}  // namespace

std::optional<std::int64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n\v\f\r"), text.size()));
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  std::int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc{}) return std::nullopt;
  return number;
}

std::optional<std::vector<int>> parse_task_counts(std::string_view text) {
  std::vector<int> counts;
  while (true) {
    const std::string_view item = text.substr(0, text.find(','));
    const std::size_t bracket = item.find("(x");
    const auto tasks = parse_number<unsigned>(item.substr(0, bracket));
    std::optional<std::size_t> times = 1;
    if (bracket != std::string_view::npos)
      times = item.back() == ')'
                  ? parse_number<std::size_t>(item.substr(bracket + 2, item.size() - bracket - 3))
                  : std::nullopt;
    if (!tasks || !times || *tasks > kMostTasks || *times == 0 || *times > kMostNodes - counts.size())
      return std::nullopt;
    counts.insert(counts.end(), *times, static_cast<int>(*tasks));
    if (item.size() == text.size()) return counts;
    text.remove_prefix(item.size() + 1);
  }
}

std::string json_text(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') quoted += '\\';
    if (byte >= 0x20)
      quoted += c;
    else
      quoted += {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return quoted + '"';
}

std::string octal_unescaped(const std::string& text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace muster
