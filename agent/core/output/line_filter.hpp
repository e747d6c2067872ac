// SPDX-License-Identifier: Apache-2.0
// --duplicate-std*-filters: picks the lines of a stream that contain one of several texts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

class LineFilter {
 public:
  /// A longer line is judged, and copied, in pieces of this size.
  static constexpr std::size_t kLongestLine = std::size_t{64} << 10;

  /// `prefix` goes before each picked line, since lines of all ranks share one file.
  LineFilter(std::vector<std::string> texts, std::string prefix);

  /// Sets the prefix of the lines that are picked from now on.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  /// Appends the picked lines that `bytes` completes to `out`, each with its newline.
  void feed(std::string_view bytes, std::string& out);
  /// Judges an unfinished last line when the stream has ended; if picked, it gets a newline.
  void end(std::string& out);

 private:
  void judge(std::string_view line, std::string& out) const;

  std::vector<std::string> texts_;
  std::string prefix_;
  std::string held_;
};

}  // namespace muster::agent
