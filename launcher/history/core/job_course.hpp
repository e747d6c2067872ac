// SPDX-License-Identifier: Apache-2.0
// The course of a job: makes one account of what its nodes tell and what the launcher does. Pure.
#pragma once

#include "agent/core/node_event.hpp"
#include "launcher/history/core/goodput.hpp"
#include "launcher/history/core/job_event.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster::launcher {

/// What of a job is said when it begins.
struct JobBeginning {
  std::string run_id;
  std::string program;
  std::vector<std::string> arguments;
  std::string version;
  std::string host;
  int pid = 0;
  int nodes = 1;
};

/// The end of a job.
struct JobEnding {
  int exit_code = 0;
  /// "succeeded", "failed", "interrupted", "deadline" or "launcher_error".
  std::string outcome;
  std::string cause;
};

/// What is counted of a job, for its metrics.
struct CourseCounts {
  /// "starting", "running", "hung", "restarting", "stopping", then the outcome of the end.
  std::string state = "starting";
  int round = -1;
  /// When the present round began: milliseconds since 1970; 0: there was none yet.
  std::int64_t round_started_at_ms = 0;
  /// Restarts by the cause of the round's end.
  std::map<std::string, std::int64_t> restarts;
  /// Workers that the kernel ended for want of memory, or whose process it did.
  std::int64_t memory_kills = 0;
};

/// One thread. Each call returns what is to be written of it, in order.
class JobCourse {
 public:
  using TimePoint = Goodput::TimePoint;
  using Events = std::vector<JobEvent>;

  explicit JobCourse(TimePoint now) : goodput_(now) {}

  static Events begun(const JobBeginning& beginning);

  /// Takes what a node has told. What several nodes tell of the same round is written once.
  Events told(const std::string& node, const agent::NodeEvent& event, TimePoint now, std::int64_t now_ms);

  /// A node could not be started, or is lost; `spared`: the job goes on without it.
  Events node_lost(const std::string& node, const std::string& cause, bool spared, TimePoint now);
  /// The connection to a node had ended, and another way leads there.
  static Events node_back(const std::string& node);

  /// The job is told to end: `by` is "signal", "timeout", or who asked; `signal` is for the workers, "" for
  /// none; `kill`: without grace.
  Events stopped(const std::string& by, const std::string& signal, bool kill, TimePoint now);
  Events ended(const JobEnding& ending, TimePoint now);

  const CourseCounts& counts() const { return counts_; }

  const Goodput& goodput() const { return goodput_; }

 private:
  /// Each node has a connection of its own: one may tell the next round's begin before another's word of this
  /// one's end arrives, which then is news but changes nothing.
  bool is_over(int round) const { return round < counts_.round; }

  Events round(const std::string& node, const agent::NodeEvent& event, TimePoint now, std::int64_t now_ms);
  Events round_end(const agent::NodeEvent& event, TimePoint now);

  Goodput goodput_;
  CourseCounts counts_;
  /// The last round whose failure, and whose end, was written.
  int failed_round_ = -1;
  int ended_round_ = -1;
  std::set<std::string> lost_;
  bool hung_ = false;
  /// Whether the job was told to end.
  bool ordered_ = false;
};

}  // namespace muster::launcher
