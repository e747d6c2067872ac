// SPDX-License-Identifier: Apache-2.0
// Signals as something to be read, for commands that wait for other things, too.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <chrono>
#include <vector>

namespace muster::launcher {

/// Used from one thread.
class SignalQueue {
 public:
  /// From now on these signals do nothing else. Throws std::system_error.
  explicit SignalQueue(const std::vector<int>& signals);

  /// Returns what is readable when a signal has come.
  int fd() const { return fd_.get(); }

  /// Returns the next signal; 0 if none has come until then.
  int wait(std::chrono::steady_clock::time_point until);

 private:
  UniqueFd fd_;
};

}  // namespace muster::launcher
