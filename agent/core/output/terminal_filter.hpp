// SPDX-License-Identifier: Apache-2.0
// Decides what a worker may do to our terminal. Pure: bytes in, bytes out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::agent {

/// Lets text through that draws: UTF-8, colours, newline, carriage return, backspace, tab, erasing, cursor
/// movement, and what hides and shows the cursor. Everything else that a terminal would act on is shown
/// instead, its bytes written as \xNN: what sets titles, modes, the clipboard or the keyboard, or what makes
/// the terminal answer, since the answer would be typed at the user's shell. Each stream has a filter of its
/// own, and may be cut into chunks anywhere.
class TerminalFilter {
 public:
  /// Longest escape sequence that is obeyed: a longer one is shown instead. This bounds what is held.
  static constexpr std::size_t kLongestSequence = 128;

  /// Returns what to show for `bytes`: they themselves where there was nothing to change, else `room`, which
  /// is overwritten (at most 4 bytes for one). A sequence or character whose end is missing is held.
  std::string_view feed(std::string_view bytes, std::string& room);
  /// Call it when the stream has ended: returns what was held, and shows the cursor if it was left hidden.
  std::string_view end(std::string& room);

 private:
  std::string held_;
  bool hidden_ = false;
};

}  // namespace muster::agent
