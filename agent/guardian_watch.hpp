// SPDX-License-Identifier: Apache-2.0
// Tells an agent that its guardian has ended, and says in the log when the guardian is stopped by a signal.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/types.h>

#include <functional>
#include <string>

namespace muster::agent {

/// Only a parent is told that a process was stopped, and the guardian is the parent of this process, so its
/// state is looked at again and again. Used from the executor's one thread. Destroy it only when no callback
/// of the executor runs any more, or after cancel().
class GuardianWatch {
 public:
  /// `pidfd` refers to the parent of this process, and is taken over. `of_node` is for messages: " of n2";
  /// may be empty.
  GuardianWatch(const boost::asio::any_io_executor& executor, int pidfd, std::string of_node);

  /// Calls `gone` once when the guardian has ended; logs when it is stopped, and when it goes on.
  void start(std::function<void()> gone);
  void cancel();

  /// Lets guardian and store process go on if they are stopped, because the job ends or begins a round.
  void let_go_on();

 private:
  void look();

  boost::asio::posix::stream_descriptor guardian_;
  boost::asio::steady_timer timer_;
  pid_t pid_;
  std::string of_node_;
  bool stopped_ = false;
};

}  // namespace muster::agent
