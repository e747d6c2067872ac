// SPDX-License-Identifier: Apache-2.0
#include "agent/core/http_answer.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace muster::agent {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeaderEnd = "\r\n\r\n";
constexpr std::string_view kLength = "content-length:";

bool begins_with(std::string_view line, std::string_view lower_case) {
  return line.size() >= lower_case.size() &&
         std::equal(lower_case.begin(), lower_case.end(), line.begin(), [](char wanted, char c) {
           return wanted == static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
         });
}

bool is_ok(std::string_view line) {
  return line.starts_with("HTTP/1.") && line.size() >= 12 && line.substr(8, 4) == " 200" &&
         (line.size() == 12 || line[12] == ' ');
}

std::optional<std::size_t> length_in(std::string_view line) {
  if (!begins_with(line, kLength)) return std::nullopt;
  line.remove_prefix(kLength.size());
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  while (!line.empty() && line.back() == ' ') line.remove_suffix(1);
  return parse_number<std::size_t>(line);
}

}  // namespace

std::optional<std::string_view> http_body(std::string_view answer) {
  const std::size_t end = answer.find(kHeaderEnd);
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view header = answer.substr(0, end);
  const std::string_view body = answer.substr(end + kHeaderEnd.size());
  if (!is_ok(header.substr(0, header.find(kLineEnd)))) return std::nullopt;
  while (!header.empty()) {
    const std::size_t line_end = std::min(header.find(kLineEnd), header.size());
    if (const auto length = length_in(header.substr(0, line_end)))
      return body.size() < *length ? std::nullopt : std::optional(body.substr(0, *length));
    header.remove_prefix(std::min(line_end + kLineEnd.size(), header.size()));
  }
  return std::nullopt;
}

}  // namespace muster::agent
