// SPDX-License-Identifier: Apache-2.0
// Makes text of other programs safe to print on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

/// The byte at `i`, which is below text.size(). Any thread.
inline unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

/// The first character of a text, or what is wrong with it.
struct Utf8Front {
  enum class Kind {
    good,  ///< a character of `length` bytes
    bad,   ///< no character: a stray, overlong, surrogate or too large one
    cut,   ///< the beginning of a character; more bytes may complete it
  };
  Kind kind = Kind::bad;
  std::size_t length = 0;
};

/// Looks at the first character of `text`, which is not empty. Any thread.
Utf8Front utf8_front(std::string_view text);

/// One line of somebody else's text, safe on a terminal: control characters (C0 but tab, DEL, C1) and bytes
/// that are not UTF-8 are written as \xNN; all other UTF-8 stays. Any thread.
std::string for_terminal(std::string_view line);

}  // namespace muster
