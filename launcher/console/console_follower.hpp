// SPDX-License-Identifier: Apache-2.0
// Reads the files of a console while they are written, by any number of readers.
#pragma once

#include "launcher/console/core/console_record.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

/// Holds one piece of a file at a time. Used from one thread.
class ConsoleFollower {
 public:
  /// Begins with the oldest line. Throws LaunchError (3) where the folder is not there, and (125) where it is
  /// not this user's alone.
  explicit ConsoleFollower(const std::string& folder);

  /// Goes on with the last `records` lines. Call it before read().
  void go_to_last(std::size_t records);

  /// Appends what comes next, some records at most; returns whether there may be more now. Lines that were
  /// overwritten before they could be read are one record `lost` without a number.
  bool read(std::vector<ConsoleRecord>& records);

 private:
  std::vector<std::uint64_t> numbers() const;
  bool open_file(std::uint64_t number);
  bool read_piece(std::vector<ConsoleRecord>& records);
  /// Goes to the file behind the present one, of which everything was read; false if there is none.
  bool next_file(std::vector<ConsoleRecord>& records);
  void take_lines(std::vector<ConsoleRecord>& records);

  std::string folder_path_;
  UniqueFd folder_;
  UniqueFd file_;
  /// The file that is read; 0: none yet.
  std::uint64_t number_ = 0;
  /// An unfinished line.
  std::string held_;
};

}  // namespace muster::launcher
