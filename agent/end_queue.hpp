// SPDX-License-Identifier: Apache-2.0
// Holds ends of workers back while another worker is being killed, whose end may have been their cause.
#pragma once

#include "agent/core/end_order.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/types.h>

#include <functional>
#include <vector>

namespace muster::agent {

/// Where much memory is given back, or on a busy machine, a worker that was killed may need longer to end
/// than another one needs to see that, and to leave. Used from the executor's one thread.
class EndQueue {
 public:
  struct Events {
    /// Whether an end can still be the cause of anything.
    std::function<bool()> running;
    std::function<std::vector<pid_t>()> living;
    /// Called with ends in the order of cause and effect, at least one.
    std::function<void(const std::vector<WorkerEnd>&)> judge;
  };

  /// `holds_back`: false where each end is judged as it comes.
  EndQueue(const boost::asio::any_io_executor& executor, bool holds_back, Events events);

  /// Judges the end at once, with those before it, or holds it back.
  void add(const WorkerEnd& end);
  /// Judges what was held back.
  void judge();

 private:
  bool cause_may_follow();

  bool holds_back_;
  Events events_;
  boost::asio::steady_timer timer_;
  std::vector<WorkerEnd> ends_;
  /// A worker that was found to be being killed; -1 if there was none.
  pid_t being_killed_ = -1;
};

}  // namespace muster::agent
