// SPDX-License-Identifier: Apache-2.0
// The stdin of the one worker that reads the launcher's.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/wire/channel.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <memory>

namespace muster::agent {

/// Holds what the launcher sent until the worker reads it; its channel's window bounds it. One thread.
class InputFeeder {
 public:
  explicit InputFeeder(const boost::asio::any_io_executor& executor);
  ~InputFeeder();
  InputFeeder(const InputFeeder&) = delete;
  InputFeeder& operator=(const InputFeeder&) = delete;

  /// The end to give to the worker of a new round; valid until the next call. What an earlier worker has read
  /// is gone. Throws std::system_error when no pipe can be had.
  int open();
  /// The worker has its end.
  void started();
  /// What comes through `channel` is the worker's, and stdin ends with it when everything was sent
  /// (kAllWasSent). Bytes are given back when the worker's pipe has taken them, or when nobody will read them
  /// any more. Another channel is refused.
  void take_from(std::shared_ptr<rendezvous::Channel> channel);

 private:
  struct State;
  std::shared_ptr<State> state_;
  UniqueFd child_end_;
};

}  // namespace muster::agent
