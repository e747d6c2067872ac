// SPDX-License-Identifier: Apache-2.0
// Keeps the end of a stream, for the failure report.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// Keeps the last lines that were fed. A flood costs one backward scan over the end of each chunk, not its
/// lines.
class LastLines {
 public:
  static constexpr std::size_t kLines = 20;
  /// Most bytes kept of a line, from its start. Of a line with carriage returns, the text that was last
  /// visible counts.
  static constexpr std::size_t kLineBytes = 2000;

  void feed(std::string_view bytes);
  /// Returns the lines, oldest first, without line ends; an unfinished last line is one of them.
  std::vector<std::string> lines() const;

  bool empty() const { return count_ == 0 && open_.empty(); }

 private:
  void extend_open(std::string_view bytes);
  void push(std::string_view line);

  std::array<std::string, kLines> ring_;
  /// Number of lines that were ever pushed.
  std::size_t count_ = 0;
  std::string open_;
  /// Whether a carriage return was the last byte: then what follows replaces the open line, unless it is the
  /// newline.
  bool replace_ = false;
};

}  // namespace muster::agent
