// SPDX-License-Identifier: Apache-2.0
// Keeps the course of a running job with the time of day, and writes its events (--event-file).
#pragma once

#include "agent/core/node_event.hpp"
#include "launcher/files/writer_thread.hpp"
#include "launcher/history/core/job_course.hpp"
#include "rendezvous/base/wall_clock.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace muster::launcher {

/// One thread; the file has one of its own, from begins() on. Without a file there is none. What happens
/// before begins() follows behind its line.
class JobHistory {
 public:
  /// How long the end of the job waits for the file.
  static constexpr std::chrono::seconds kFileAtMost{1};
  /// Lines that may wait for it.
  static constexpr std::size_t kLinesMost = 1024;

  using TimePoint = std::chrono::steady_clock::time_point;

  /// `file`: --event-file; empty: none. `began`, `began_ms`: when the job began, and that as the time of day.
  explicit JobHistory(std::string file, TimePoint began = std::chrono::steady_clock::now(),
                      std::int64_t began_ms = wall_clock_ms())
      : file_(std::move(file)), began_ms_(began_ms), course_(began) {}

  /// Call once after the last fork.
  void begins(EventOrigin origin, const JobBeginning& beginning);

  /// As in JobCourse.
  void told(const std::string& node, const agent::NodeEvent& event);
  void node_lost(const std::string& node, const std::string& cause, bool spared);
  void node_back(const std::string& node);
  void stopped(const std::string& by, const std::string& signal, bool kill);

  /// The job has ended. Returns what is to be said of lines that were lost; empty if none was.
  std::string ends(const JobEnding& ending);

  const JobCourse& course() const { return course_; }

  /// What the time went into, up to now; settled() as in Goodput.
  TimeShares shares(TimePoint now = std::chrono::steady_clock::now()) const {
    return course_.goodput().shares(now);
  }

  TimeShares settled() const { return course_.goodput().settled(std::chrono::steady_clock::now()); }

 private:
  void write(const JobCourse::Events& events);

  std::string file_;
  std::int64_t began_ms_;
  /// What has happened before begins(), and when; at most kLinesMost.
  std::vector<std::pair<std::int64_t, JobEvent>> early_;
  bool begun_ = false;
  JobCourse course_;
  EventOrigin origin_;
  std::unique_ptr<WriterThread> writer_;
};

}  // namespace muster::launcher
