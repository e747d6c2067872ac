// SPDX-License-Identifier: Apache-2.0
// From what comes through the stdout or stderr of a detached launcher to records. Pure.
#pragma once

#include "launcher/console/core/console_record.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

/// Returns the line by which a launcher says on its stderr, as its last word, how its job has ended.
std::string end_frame(int exit_code);

/// Reads one of the two streams. What workers print comes in frames (agent/core/output/console_frame.hpp);
/// all other lines are our own messages. Holds one unfinished line, of at most kHeldMax bytes.
class FrameReader {
 public:
  static constexpr std::size_t kHeldMax = std::size_t{64} << 10;

  explicit FrameReader(ConsoleRecord::Stream stream) : stream_(stream) {}

  /// Appends the records that `bytes` complete. `now_ms`: milliseconds since 1970.
  void feed(std::string_view bytes, std::int64_t now_ms, std::vector<ConsoleRecord>& records);
  /// Appends what is left when the stream has ended.
  void end(std::int64_t now_ms, std::vector<ConsoleRecord>& records);

 private:
  void take_line(std::string_view line, bool ends_line, std::int64_t now_ms,
                 std::vector<ConsoleRecord>& records) const;

  ConsoleRecord::Stream stream_;
  std::string held_;
};

}  // namespace muster::launcher
