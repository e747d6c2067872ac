// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace muster {

/// The byte at `i`, which is below text.size(). Any thread.
inline unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

/// Says what a text begins with.
struct Utf8Front {
  enum class Kind {
    good,  ///< a character of `length` bytes
    bad,   ///< none: a stray, overlong, surrogate or too large one
    cut,   ///< the beginning of a character; more bytes may complete it
  };
  Kind kind = Kind::bad;
  std::size_t length = 0;
};

/// `text` is not empty. Any thread.
Utf8Front utf8_front(std::string_view text);

}  // namespace muster
