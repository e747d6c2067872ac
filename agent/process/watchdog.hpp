// SPDX-License-Identifier: Apache-2.0
// The agent's side of PyTorch's watchdog: a named pipe into which processes of the node write their timers.
#pragma once

#include "agent/core/watchdog_timers.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

namespace muster::agent {

/// Reads the pipe while it lives, and removes it. Used from the executor's one thread.
class Watchdog {
 public:
  /// Makes the pipe, readable and writable by this user only: at `path` or, where that is empty or another
  /// job reads it, in a directory of its own under TMPDIR (or /tmp). A pipe without a reader at `path` is
  /// what a killed agent left, and is replaced. `expired` is called at the time of each timer that was not
  /// released. Throws std::system_error, or std::runtime_error if something else has the name.
  Watchdog(const boost::asio::any_io_executor& executor, const std::string& path,
           std::function<void(const ExpiredTimer&)> expired);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Returns the value of TORCHELASTIC_TIMER_FILE for the workers; absolute.
  const std::string& path() const;

  /// Drops the timers of a process that has ended.
  void forget(int pid);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Removes the pipe that a killed agent has left in TMPDIR. A pipe that somebody reads is another's and
/// stays: an agent in another PID namespace may have the same pid.
void remove_watchdog_of(pid_t agent);

}  // namespace muster::agent
