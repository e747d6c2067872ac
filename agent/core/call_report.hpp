// SPDX-License-Identifier: Apache-2.0
// What is said about the workers' calls: while they wait too long, and when the round ends badly.
#pragma once

#include "agent/core/node_report.hpp"
#include "worker_sdk/status/diagnosis.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace muster::agent {

/// Chooses the waits that are worth a line in the log: long enough, and each call once.
class WaitReporter {
 public:
  /// `report_after` overrides what the groups ask for; 0: never.
  explicit WaitReporter(std::optional<std::chrono::milliseconds> report_after)
      : report_after_(report_after) {}

  std::vector<status::Wait> due(const std::vector<status::RankView>& ranks, std::uint64_t now_ns);

 private:
  using Key = std::tuple<std::uint64_t, bool, std::uint64_t, int>;

  std::optional<std::chrono::milliseconds> report_after_;
  std::set<Key> said_;
};

/// A picture of all workers' calls at one moment.
struct CallReport {
  std::vector<std::string> lines;
  /// The call of each worker, by its rank in the world.
  std::map<int, WorkerCall> ranks;
};

/// Describes the workers' calls at this moment. `recent` holds the last calls of each rank, in the order of
/// the views; `failed` is the rank whose end is the cause, or -1. When no rank uses the SDK, only stopped
/// processes are named.
CallReport make_call_report(const std::vector<status::RankView>& ranks,
                            const std::vector<std::vector<status::RecentCall>>& recent, int failed,
                            std::uint64_t now_ns);

/// Most calls of each rank that a report quotes.
constexpr std::size_t kRecentCallsMax = 8;

}  // namespace muster::agent
