// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <unordered_map>

namespace muster::rendezvous {

/// Decides which lines about misbehaving peers are printed: one per address in an interval. Pure.
class PeerLog {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// True if a line about `host` is due; counts those that are not.
  bool due(const std::string& host, TimePoint now);
  /// Lines left out before the one that is now due; resets the count of that host.
  std::size_t take_suppressed(const std::string& host);

 private:
  struct Entry {
    TimePoint last;
    std::size_t suppressed = 0;
  };

  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace muster::rendezvous
