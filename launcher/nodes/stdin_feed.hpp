// SPDX-License-Identifier: Apache-2.0
// --stdin RANK: sends what comes on our stdin to the worker that reads it on another host.
#pragma once

#include "rendezvous/wire/channel.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <memory>

namespace muster::launcher {

/// Reads no more than the channel to the worker has room for. Leaves the mode of the descriptor as it is,
/// because others share it. Used from the executor's one thread.
class StdinFeed {
 public:
  /// If `fd` is a terminal that we are not in the foreground of, it counts as at its end at once.
  StdinFeed(const boost::asio::any_io_executor& executor, int fd);
  ~StdinFeed();
  StdinFeed(const StdinFeed&) = delete;
  StdinFeed& operator=(const StdinFeed&) = delete;

  /// Sends what follows to the worker behind this channel; null: to nobody. The channel is closed at the end
  /// of our stdin. What was sent to another worker before is gone with that one.
  void feed(std::shared_ptr<rendezvous::Channel> reader);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
