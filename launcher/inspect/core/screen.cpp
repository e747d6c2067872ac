// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/screen.hpp"

#include "rendezvous/log/terminal_text.hpp"

#include <algorithm>
#include <utility>

namespace muster::launcher {
namespace {

constexpr std::string_view kIndent = "    ";
constexpr std::string_view kPlainAgain = "\x1b[0m";
constexpr std::string_view kClearRest = "\x1b[K";

std::string_view sequence_of(Tone tone) {
  switch (tone) {
    case Tone::heading:
      return "\x1b[1m";
    case Tone::warning:
      return "\x1b[33m";
    case Tone::alarm:
      return "\x1b[1;31m";
    case Tone::plain:
      break;
  }
  return {};
}

/// Returns the bytes of the longest beginning that fits.
std::size_t fitting(std::string_view text, std::size_t columns) {
  std::size_t used = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_front(text.substr(at)).length;
    used += length > 1 ? 2 : 1;
    if (used > columns) break;
    at += std::max<std::size_t>(length, 1);
  }
  return std::min(at, text.size());
}

}  // namespace

std::string cut_to(std::string_view text, std::size_t columns) {
  std::string kept(text.substr(0, fitting(text, columns)));
  std::replace(kept.begin(), kept.end(), '\t', ' ');
  return kept;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns, std::size_t most) {
  std::vector<std::string> lines;
  while (!text.empty() && lines.size() < most) {
    std::string line(lines.empty() ? std::string_view() : kIndent);
    const std::size_t room = columns > line.size() ? columns - line.size() : 1;
    std::size_t length = std::max<std::size_t>(fitting(text, room), 1);
    if (length < text.size())
      if (const std::size_t space = text.rfind(' ', length); space != std::string_view::npos && space > 0)
        length = space;
    line += cut_to(text.substr(0, length), room);
    lines.push_back(std::move(line));
    text.remove_prefix(length);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  return lines;
}

std::string painted(const ScreenLine& line, bool coloured) {
  const std::string_view begin = coloured ? sequence_of(line.tone) : std::string_view();
  if (begin.empty()) return line.text;
  return std::string(begin) + line.text + std::string(kPlainAgain);
}

std::string difference(const Picture& shown, const Picture& wanted, bool coloured) {
  std::string bytes;
  for (std::size_t row = 0; row < std::max(shown.size(), wanted.size()); ++row) {
    const bool gone = row >= wanted.size();
    if (!gone && row < shown.size() && shown[row] == wanted[row]) continue;
    bytes += "\x1b[" + std::to_string(row + 1) + ";1H";
    if (!gone) bytes += painted(wanted[row], coloured);
    bytes += kClearRest;
  }
  return bytes;
}

}  // namespace muster::launcher
