// SPDX-License-Identifier: Apache-2.0
// --stdin RANK: what comes on our stdin, for the worker that reads it on another host.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace muster::launcher {

/// Reads no more than the worker's node has room for. Leaves the mode of the descriptor as it is: others
/// share it. One thread, the executor's.
class StdinFeed {
 public:
  /// `send` gets the bytes, at last an empty string. A terminal whose foreground we are not is at its end at
  /// once.
  StdinFeed(const boost::asio::any_io_executor& executor, int fd, std::function<void(std::string)> send);
  ~StdinFeed();
  StdinFeed(const StdinFeed&) = delete;
  StdinFeed& operator=(const StdinFeed&) = delete;

  void start();
  /// The worker has read so much.
  void taken(std::int64_t bytes);
  /// Somebody else reads from here on, and has taken all that was sent to it: nothing, or the end of input.
  void next_reader();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
