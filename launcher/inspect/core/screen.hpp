// SPDX-License-Identifier: Apache-2.0
// What a terminal shows, line by line, and the bytes that change it. Pure. Sequences as in ECMA-48 (CUP, EL,
// SGR), which every terminal in use knows.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

/// How a line is to strike the eye.
enum class Tone {
  plain,
  heading,  ///< bold
  warning,  ///< yellow
  alarm,    ///< red
};

struct ScreenLine {
  /// Safe for a terminal: no control characters.
  std::string text{};
  Tone tone = Tone::plain;

  bool operator==(const ScreenLine&) const = default;
};

/// From the top of the screen.
using Picture = std::vector<ScreenLine>;

struct ScreenSize {
  int columns = 80;
  int rows = 24;

  bool operator==(const ScreenSize&) const = default;
};

/// Returns what of a text fits into so many columns, and replaces tabs. A character that is not ASCII counts
/// as two columns, since it may be a wide one.
std::string cut_to(std::string_view text, std::size_t columns);

/// Breaks a text at spaces into lines of so many columns at most, and breaks words that are longer; the lines
/// after the first are indented by four. Of more than `most` lines (at least one) the rest is left out.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns, std::size_t most);

/// Returns the line with its tone, which is switched off again behind it; without, if not `coloured`.
std::string painted(const ScreenLine& line, bool coloured);

/// Returns the bytes that make a terminal that shows `shown` show `wanted`: only lines that differ are
/// written. Lines are to be shorter than the terminal's width, or its last column is cleared.
std::string difference(const Picture& shown, const Picture& wanted, bool coloured);

}  // namespace muster::launcher
