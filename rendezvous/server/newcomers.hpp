// SPDX-License-Identifier: Apache-2.0
// Control connections over which nobody has said hello yet, or whose hello waits. Includes Asio.
#pragma once

#include "rendezvous/server/control_session.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

namespace muster::rendezvous {

/// One thread, the executor's.
class Newcomers {
 public:
  /// `first_message` is told of each newcomer, which is forgotten before; not after close().
  Newcomers(boost::asio::any_io_executor executor, Newcomer::FirstMessage first_message)
      : executor_(std::move(executor)), first_message_(std::move(first_message)) {}

  ~Newcomers() { close(); }

  Newcomers(const Newcomers&) = delete;
  Newcomers& operator=(const Newcomers&) = delete;

  /// Of those with one key, the oldest makes room.
  void add(std::unique_ptr<ByteStream> stream, PeerPlace place);

  /// Counts a newcomer as one more of its key, although its first message has come: its answer has to wait.
  void hold(const std::shared_ptr<Newcomer>& newcomer);

  /// Idempotent.
  void forget(const std::shared_ptr<Newcomer>& newcomer);

  /// Those over a local socket.
  std::size_t local() const { return local_; }

  void close();

 private:
  boost::asio::any_io_executor executor_;
  Newcomer::FirstMessage first_message_;
  std::set<std::shared_ptr<Newcomer>> all_;
  /// Those over the network by their identity, the oldest first.
  std::unordered_map<std::string, std::deque<std::shared_ptr<Newcomer>>> of_identity_;
  std::size_t local_ = 0;
  bool closed_ = false;
};

}  // namespace muster::rendezvous
