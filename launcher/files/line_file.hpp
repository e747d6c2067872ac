// SPDX-License-Identifier: Apache-2.0
// A file to which lines are appended, each by one write, whatever else is appended to it.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <atomic>
#include <string>

namespace muster::launcher {

/// One thread. A regular file is made with mode 0600; links to it stay (base/output_file.hpp). A pipe or a
/// device is opened without waiting for its other end, and again with a later line where there is none yet.
class LineFile {
 public:
  explicit LineFile(std::string path) : path_(std::move(path)) {}

  /// Appends a line, which has its end. Waits for a pipe or a device that is full until `leave` is set; a
  /// write to a disk that does not answer lasts as long as it does. Returns why the line is not there, or not
  /// whole, in words, or "". A line behind one that is not whole begins in a line of its own; nothing is ever
  /// cut off.
  std::string append(const std::string& line, const std::atomic<bool>& leave);

 private:
  std::string open();

  std::string path_;
  UniqueFd fd_;
  /// Whether the last line is in the file in part.
  bool torn_ = false;
};

}  // namespace muster::launcher
