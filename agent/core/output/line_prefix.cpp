// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/line_prefix.hpp"

#include "rendezvous/log/terminal_text.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <utility>

namespace muster::agent {

namespace {

std::string time_text(std::chrono::system_clock::time_point now) {
  const std::time_t seconds =
      std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(now));
  std::tm local{};
  std::array<char, 40> date{};
  if (::localtime_r(&seconds, &local) == nullptr) return "?";
  if (std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &local) == 0) return "?";
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  const long minutes = std::labs(local.tm_gmtoff) / 60;
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%s.%03d%c%02ld:%02ld", date.data(), static_cast<int>(ms),
                local.tm_gmtoff < 0 ? '-' : '+', minutes / 60, minutes % 60);
  return text.data();
}

std::string elapsed_text(std::chrono::milliseconds elapsed) {
  const std::string ms = std::to_string(elapsed.count() % 1000);
  return std::to_string(elapsed.count() / 1000) + '.' + std::string(3 - ms.size(), '0') + ms;
}

std::optional<std::string> field_value(std::string_view name, const PrefixFields& fields,
                                       const PrefixTime& time) {
  if (name == "role_name") return for_terminal(fields.role);
  if (name == "hostname") return for_terminal(fields.host);
  if (name == "local_rank") return std::to_string(fields.local_rank);
  if (name == "rank") return std::to_string(fields.rank);
  if (name == "time") return time_text(time.now);
  if (name == "elapsed") return elapsed_text(time.elapsed);
  return std::nullopt;
}

bool name_character(char c, bool first) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

/// Returns the name after a dollar sign, and how many bytes of `text` it takes with its braces; empty if
/// there is none.
std::pair<std::string_view, std::size_t> name_at(std::string_view text) {
  const bool braced = !text.empty() && text.front() == '{';
  const std::size_t begin = braced ? 1 : 0;
  std::size_t end = begin;
  while (end < text.size() && name_character(text[end], end == begin)) ++end;
  const std::string_view name = text.substr(begin, end - begin);
  if (name.empty()) return {};
  if (!braced) return {name, end};
  if (end == text.size() || text[end] != '}') return {};
  return {name, end + 1};
}

}  // namespace

std::string line_prefix(std::string_view prefix_template, const PrefixFields& fields,
                        const PrefixTime& time) {
  if (prefix_template.empty()) prefix_template = "[${role_name}${local_rank}]:";
  std::string prefix;
  while (!prefix_template.empty()) {
    const std::size_t dollar = prefix_template.find('$');
    prefix += prefix_template.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    prefix_template.remove_prefix(dollar + 1);
    if (prefix_template.starts_with('$')) {
      prefix += '$';
      prefix_template.remove_prefix(1);
      continue;
    }
    const auto [name, length] = name_at(prefix_template);
    const auto value = field_value(name, fields, time);
    if (value) {
      prefix += *value;
      prefix_template.remove_prefix(length);
    } else {
      prefix += '$';
    }
  }
  return prefix;
}

bool LinePrefix::tells_time() const {
  const PrefixTime later{std::chrono::system_clock::time_point(std::chrono::seconds(1)),
                         std::chrono::seconds(1)};
  return text({}) != text(later);
}

}  // namespace muster::agent
