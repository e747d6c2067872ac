// SPDX-License-Identifier: Apache-2.0
// Feeds the stdin of the one worker that reads the launcher's (--stdin), where the launcher is on another
// host.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/wire/channel.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <memory>

namespace muster::agent {

/// Holds what the launcher sent until the worker reads it; the window of the channel bounds it. Used from one
/// thread.
class InputFeeder {
 public:
  explicit InputFeeder(const boost::asio::any_io_executor& executor);
  ~InputFeeder();
  InputFeeder(const InputFeeder&) = delete;
  InputFeeder& operator=(const InputFeeder&) = delete;

  /// Returns the end of a pipe for the worker of a new round; valid until the next call. What an earlier
  /// worker has read is gone. Throws std::system_error when no pipe can be had.
  int open();
  /// Closes our copy of the worker's end, once the worker has it.
  void started();
  /// Passes what comes through `channel` on to the worker, whose stdin ends when everything was sent
  /// (kAllWasSent). Bytes are given back when the worker's pipe has taken them, or when nobody will read them
  /// any more. Another channel is refused.
  void take_from(std::shared_ptr<rendezvous::Channel> channel);

 private:
  struct State;
  std::shared_ptr<State> state_;
  UniqueFd child_end_;
};

}  // namespace muster::agent
