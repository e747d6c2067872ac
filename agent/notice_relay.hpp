// SPDX-License-Identifier: Apache-2.0
// Notices of batch systems (SIGUSR1, SIGUSR2) on their way to the workers of a node.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <map>

namespace muster::agent {

/// A batch system sends a notice to the launcher alone, or to every process of a step. In the second case the
/// workers have it already, as this process has, and it is not passed on. Used from the executor's one
/// thread; no callback follows cancel().
class NoticeRelay {
 public:
  /// `pass_on` gets the number of the signal.
  NoticeRelay(const boost::asio::any_io_executor& executor, std::function<void(int)> pass_on);

  /// Takes a signal that the launcher got. It is passed on when kEverybodyWithin has passed, unless this
  /// process got it, too, at most kEverybodyWithin before or after.
  void launcher_got(int signal);

  void cancel();

 private:
  void watch();
  void decide(int signal);

  std::function<void(int)> pass_on_;
  boost::asio::signal_set own_;
  boost::asio::any_io_executor executor_;
  std::map<int, std::chrono::steady_clock::time_point> got_at_;
  /// Timers of the signals about which is still to be decided.
  std::map<int, boost::asio::steady_timer> due_;
};

}  // namespace muster::agent
