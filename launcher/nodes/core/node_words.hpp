// SPDX-License-Identifier: Apache-2.0
// Prepares what a node says for our log and report: it is not trusted to speak for another one.
#pragma once

#include "agent/core/link_message.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace muster::launcher {

/// Removes our usual beginning from a line of a muster elsewhere, which becomes part of a line that begins so
/// here.
std::string without_our_beginning(const std::string& line);

/// Returns `text` as said by the node `name`, which may speak of another one, but not in its place.
std::string named(const std::string& name, const std::string& text);

/// Returns at most 4096 bytes of a text.
std::string shortened(const std::string& text);

/// Returns the last words of a node, in which it cannot speak of another one.
std::string last_words_of(const std::string& name, const agent::LinkMessage& notice);

/// Admits kLines in each stretch of kStretch, which begins with a line; what is over is counted. Pure.
class LineLimit {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kLines = 100;
  static constexpr std::chrono::seconds kStretch{10};

  /// Whether a line may be shown now. Otherwise it counts as left out.
  bool admit(TimePoint now) {
    if (!begun_ || now - begin_ >= kStretch) {
      begun_ = true;
      begin_ = now;
      shown_ = 0;
    }
    if (shown_ < kLines) {
      ++shown_;
      return true;
    }
    ++left_out_;
    return false;
  }

  /// Returns how many lines were left out since the last call, if they are to be told now: the stretch is
  /// over, or `at_the_end`.
  std::size_t take_left_out(TimePoint now, bool at_the_end) {
    if (!at_the_end && begun_ && now - begin_ < kStretch) return 0;
    const std::size_t count = left_out_;
    left_out_ = 0;
    return count;
  }

 private:
  TimePoint begin_{};
  bool begun_ = false;
  std::size_t shown_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace muster::launcher
