// SPDX-License-Identifier: Apache-2.0
// The metrics of a job, from a picture of it and its course so far. Pure.
#pragma once

#include "launcher/core/time_shares.hpp"
#include "launcher/history/core/job_course.hpp"
#include "launcher/inspect/core/job_query.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace muster::launcher {

/// Ranks that have metrics of their own; further ones are counted.
inline constexpr std::size_t kMetricsRanksMost = 4096;

struct JobMetrics {
  /// What the nodes have answered last.
  JobAnswer answer;
  CourseCounts counts;
  /// Losses that never get smaller.
  TimeShares settled;
  /// Milliseconds since each node, by its name, has answered; of those that ever have.
  std::map<std::string, std::int64_t> heard_ms_ago;
  /// Milliseconds since 1970.
  std::int64_t now_ms = 0;
};

/// Returns the text, with its end.
std::string metrics_text(const JobMetrics& metrics);

/// Returns the name by which metrics and events call a node: its own, or its host's in a job of one node.
std::string metrics_name(const agent::NodeStatus& node);

}  // namespace muster::launcher
