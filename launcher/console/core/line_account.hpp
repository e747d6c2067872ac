// SPDX-License-Identifier: Apache-2.0
// Decides which lines wait for the disk, and counts those that are lost. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace muster::launcher {

/// The queue between what comes and a disk that may be slow or silent. As long as the disk takes something,
/// whoever prints faster is held up for moments; once it has taken nothing for kSilentAfter, lines that find
/// no room are lost, and nobody is held up. Used from one thread at a time.
class LineAccount {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Verdict {
    take,  ///< put it into the queue
    wait,  ///< offer it again in a moment
    drop,  ///< it is lost, and counted
  };

  static constexpr std::size_t kQueueBytes = std::size_t{4} << 20;
  static constexpr std::chrono::milliseconds kSilentAfter{200};

  /// Judges a line of `size` bytes.
  Verdict offer(std::size_t size, TimePoint now);

  /// Takes a line that must not be lost.
  void force(std::size_t size) { queued_ += size; }

  /// Says that the disk has dealt with so many bytes of the queue.
  void written(std::size_t size, TimePoint now);

  /// Returns how many lines were lost since the last call.
  std::int64_t take_lost();

  bool has_lost() const { return lost_ > 0; }

 private:
  std::size_t queued_ = 0;
  TimePoint moved_at_{};
  std::int64_t lost_ = 0;
};

}  // namespace muster::launcher
