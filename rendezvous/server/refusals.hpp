// SPDX-License-Identifier: Apache-2.0
// Counts connections that were refused at a port, and says so in few lines.
#pragma once

#include "rendezvous/net/address.hpp"
#include "rendezvous/server/peer_log.hpp"

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace muster::rendezvous {

/// Any thread.
class Refusals {
 public:
  /// `say` gets the lines, on the thread of the refusal.
  Refusals(std::string port, std::function<void(const std::string&)> say)
      : port_(std::move(port)), say_(std::move(say)) {}

  void add(const SocketAddress& peer, const std::string& why);
  std::uint64_t count() const;

 private:
  /// Empty: none is due.
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
