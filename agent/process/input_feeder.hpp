// SPDX-License-Identifier: Apache-2.0
// The stdin of the one worker that reads the launcher's.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace muster::agent {

/// Holds what the launcher sent until the worker reads it; the launcher's window bounds it. One thread.
class InputFeeder {
 public:
  /// `taken` is told of bytes that the worker's pipe has taken, or that nobody will read any more.
  InputFeeder(const boost::asio::any_io_executor& executor, std::function<void(std::int64_t)> taken);
  ~InputFeeder();
  InputFeeder(const InputFeeder&) = delete;
  InputFeeder& operator=(const InputFeeder&) = delete;

  /// The end to give to the worker of a new round; valid until the next call. What an earlier worker has read
  /// is gone. Throws std::system_error when no pipe can be had.
  int open();
  /// The worker has its end.
  void started();
  /// Empty bytes: the end.
  void feed(std::string bytes);
  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
  UniqueFd child_end_;
};

}  // namespace muster::agent
