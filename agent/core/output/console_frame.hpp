// SPDX-License-Identifier: Apache-2.0
// How a line of a worker says on its way to the console process of a detached job whose it is. Pure.
//
// A frame is one line: the byte 0x1f, the round, a blank, the rank, a blank, '=' if the worker ended its line
// there or '+' if it did not, then the bytes that it printed, then a newline. A line that does not begin with
// that byte is one of our own messages, in which control characters are escaped.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace muster::agent {

inline constexpr char kFrameBegin = '\x1f';
inline constexpr char kFrameEndsLine = '=';
inline constexpr char kFrameGoesOn = '+';
/// Most bytes of a worker in one frame; the rest of a longer line follows in others.
inline constexpr std::size_t kFrameTextMax = std::size_t{16} << 10;

struct ConsoleFrame {
  int round = 0;
  int rank = 0;
  bool ends_line = true;
  std::string_view text;
};

/// Returns what stands before the mark and the text in each frame of this worker.
std::string frame_prefix(int round, int rank);

/// Reads a line without its newline; nullopt if it is no frame.
std::optional<ConsoleFrame> parse_frame(std::string_view line);

}  // namespace muster::agent
