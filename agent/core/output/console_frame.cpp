// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/console_frame.hpp"

#include "rendezvous/base/text.hpp"

namespace muster::agent {
namespace {

/// Takes the number before the next blank off a line; nullopt if there is none.
std::optional<int> take_number(std::string_view& line) {
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const auto number = parse_number<int>(line.substr(0, blank));
  line.remove_prefix(blank + 1);
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

std::string frame_prefix(int round, int rank) {
  return kFrameBegin + std::to_string(round) + ' ' + std::to_string(rank) + ' ';
}

std::optional<ConsoleFrame> parse_frame(std::string_view line) {
  if (line.empty() || line.front() != kFrameBegin) return std::nullopt;
  line.remove_prefix(1);
  const auto round = take_number(line);
  const auto rank = round ? take_number(line) : std::nullopt;
  if (!rank || line.empty() || (line.front() != kFrameEndsLine && line.front() != kFrameGoesOn))
    return std::nullopt;
  return ConsoleFrame{*round, *rank, line.front() == kFrameEndsLine, line.substr(1)};
}

}  // namespace muster::agent
