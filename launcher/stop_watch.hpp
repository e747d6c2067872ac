// SPDX-License-Identifier: Apache-2.0
// Measures how long a job takes, from its beginning, before anything of it is forked.
#pragma once

#include "launcher/core/job_end.hpp"

#include <chrono>
#include <cstdint>

namespace muster::launcher {

/// Begins when it is made.
class StopWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  TimePoint began() const { return steady_; }

  std::int64_t began_at_ms() const { return milliseconds(wall_.time_since_epoch()); }

  JobTimes read(TimePoint now = std::chrono::steady_clock::now()) const {
    JobTimes times;
    times.started_at_ms = began_at_ms();
    times.ended_at_ms = milliseconds(std::chrono::system_clock::now().time_since_epoch());
    times.duration_ms = milliseconds(now - steady_);
    return times;
  }

 private:
  template <typename Duration>
  static std::int64_t milliseconds(Duration duration) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  }

  std::chrono::system_clock::time_point wall_ = std::chrono::system_clock::now();
  TimePoint steady_ = std::chrono::steady_clock::now();
};

}  // namespace muster::launcher
