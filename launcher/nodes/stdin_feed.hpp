// SPDX-License-Identifier: Apache-2.0
// --stdin RANK: what comes on our stdin, for the worker that reads it on another host.
#pragma once

#include "rendezvous/wire/channel.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <memory>

namespace muster::launcher {

/// Reads no more than the channel to the worker has room for. Leaves the mode of the descriptor as it is:
/// others share it. One thread, the executor's.
class StdinFeed {
 public:
  /// A terminal whose foreground we are not is at its end at once.
  StdinFeed(const boost::asio::any_io_executor& executor, int fd);
  ~StdinFeed();
  StdinFeed(const StdinFeed&) = delete;
  StdinFeed& operator=(const StdinFeed&) = delete;

  /// Whoever is behind this channel reads from here on; null: nobody. At our end it is closed. What was sent
  /// to another one before is gone with it.
  void feed(std::shared_ptr<rendezvous::Channel> reader);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
