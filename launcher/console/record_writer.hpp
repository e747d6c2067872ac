// SPDX-License-Identifier: Apache-2.0
// Writes the files of a console.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster::launcher {

/// Blocks as long as the disk does, so it is for a thread of its own.
class RecordWriter {
 public:
  /// `folder` is borrowed; it has no file of a console yet.
  explicit RecordWriter(int folder) : folder_(folder) {}

  /// Writes whole lines. Returns how many lines the disk has refused, as lines_in() counts.
  std::int64_t write(std::string_view lines);

 private:
  bool has_file(std::size_t more);

  int folder_;
  std::uint64_t number_ = 0;
  std::uint64_t size_ = 0;
  UniqueFd file_;
  /// Whether the file ends within a line, which the disk has cut off.
  bool is_cut_ = false;
};

}  // namespace muster::launcher
