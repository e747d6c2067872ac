// SPDX-License-Identifier: Apache-2.0
// The timers of PyTorch's watchdog (torch.distributed.elastic.timer with FileTimerClient): requests of
// workers and the time go in, processes whose timer ran out come out. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::agent {

/// A process that did not release its timer in time.
struct ExpiredTimer {
  int pid = 0;
  /// The timer's name in the program (without one PyTorch takes a "file#line"); of a long name the end.
  std::string name;
  /// The time that the process had, from its request on.
  std::chrono::milliseconds limit{0};
  /// The signal that is to end the process; 0: the program wants no more than a message.
  int signal = 0;
};

class WatchdogTimers {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Longest request: it is one write to the pipe, which is whole only up to PIPE_BUF.
  static constexpr std::size_t kLineBytesMax = 4096;
  /// Most timers that all workers of a node may have together.
  static constexpr std::size_t kTimersMax = 1024;

  /// Takes bytes as they come from the pipe, cut anywhere: lines of JSON with pid, scope_id, expiration_time
  /// (seconds since 1970; negative: release) and signal. `wall_s` is the clock that the workers read, in
  /// seconds since 1970; what it does after the request changes nothing. Returns why a request was left out
  /// (unreadable, too long, too many timers); empty: none was.
  std::string receive(std::string_view bytes, TimePoint now, double wall_s);

  /// Takes out what has run out by `now`, the earliest first and one of each process: its first that has a
  /// signal, else its first. A process that gets a signal has no timers any more.
  std::vector<ExpiredTimer> take_expired(TimePoint now);

  /// Returns the time at which the next timer runs out; nothing if there is none.
  std::optional<TimePoint> next() const;

  /// Drops the timers of a process that has ended.
  void forget(int pid);

 private:
  struct Timer {
    TimePoint at;
    std::chrono::milliseconds limit{0};
    int signal = 0;
  };

  /// Process and name of a timer.
  using Key = std::pair<int, std::string>;

  std::string request(const std::string& line, TimePoint now, double wall_s);

  std::map<Key, Timer> timers_;
  std::string line_;
  /// Whether what comes next is inside a line that is too long.
  bool skipping_ = false;
};

/// Returns a text such as "the watchdog timer 'train.py#17' of rank 3 expired after 2.0 s"; for a process of
/// the worker's own it says "... of rank 3 (its process 4711) ...".
std::string describe(const ExpiredTimer& timer, int rank, bool is_worker);

}  // namespace muster::agent
