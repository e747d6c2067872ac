// SPDX-License-Identifier: Apache-2.0
// Says what is waited for, when that takes long enough for somebody to wonder.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <string>

namespace muster::agent {

/// Used from the executor's one thread. Destroy it only when no callback of the executor runs any more, or
/// after end().
class WaitNotice {
 public:
  explicit WaitNotice(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  /// Says what is waited for now. It is logged once a wait has lasted two seconds, when it changes after that
  /// (not more often than every ten seconds), and every two minutes.
  void update(const std::string& text);
  /// Says no more, because the wait is over.
  void end();

 private:
  void watch(std::chrono::milliseconds delay);

  boost::asio::steady_timer timer_;
  std::string text_;
  std::string said_;
  std::chrono::steady_clock::time_point said_at_;
  bool runs_ = false;
};

}  // namespace muster::agent
