// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/log/colours.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>

namespace muster {
namespace {

struct Level {
  std::string_view word;
  std::string_view colour;
};

// Bold red and bold yellow (ECMA-48, select graphic rendition).
constexpr std::array<Level, 2> kLevels{{{"error:", "\x1b[1;31m"}, {"warning:", "\x1b[1;33m"}}};
constexpr std::string_view kPlain = "\x1b[0m";
constexpr std::string_view kBeginning = "muster: ";

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool wants_colours() {
  return variable("NO_COLOR").empty();
}

bool shows_colours(int fd) {
  const std::string_view kind = variable("TERM");
  return !kind.empty() && kind != "dumb" && wants_colours() && ::isatty(fd) == 1;
}

std::string with_coloured_level(std::string_view text) {
  if (!text.starts_with(kBeginning)) return std::string(text);
  const std::string_view rest = text.substr(kBeginning.size());
  for (const Level& level : kLevels) {
    if (!rest.starts_with(level.word)) continue;
    std::string coloured(kBeginning);
    for (const std::string_view part : {level.colour, level.word, kPlain, rest.substr(level.word.size())})
      coloured += part;
    return coloured;
  }
  return std::string(text);
}

std::string for_screen(int fd, std::string_view text) {
  return shows_colours(fd) ? with_coloured_level(text) : std::string(text);
}

}  // namespace muster
