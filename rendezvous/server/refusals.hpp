// SPDX-License-Identifier: Apache-2.0
// Counts the connections that were refused at a port, and logs them in few lines.
#pragma once

#include "rendezvous/net/address.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

namespace muster::rendezvous {

/// Decides which lines about misbehaving peers are printed: one per address in an interval. Pure.
class PeerLog {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Whether a line about `host` is due; counts the lines that are not.
  bool due(const std::string& host, TimePoint now);
  /// The number of lines left out before the one that is now due; resets the count of that host.
  std::size_t take_suppressed(const std::string& host);

 private:
  struct Entry {
    TimePoint last;
    std::size_t suppressed = 0;
  };

  std::unordered_map<std::string, Entry> entries_;
};

/// Logs the refusals of one port. Any thread.
class Refusals {
 public:
  /// `say` gets the lines, on the thread of the refusal.
  Refusals(std::string port, std::function<void(const std::string&)> say)
      : port_(std::move(port)), say_(std::move(say)) {}

  void add(const SocketAddress& peer, const std::string& why);
  std::uint64_t count() const;

 private:
  /// The line about a refusal; empty if none is due.
  std::string line(const SocketAddress& peer, const std::string& why);

  const std::string port_;
  const std::function<void(const std::string&)> say_;
  mutable std::mutex mutex_;
  PeerLog peers_;
  PeerLog::TimePoint lines_since_{};
  int lines_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace muster::rendezvous
