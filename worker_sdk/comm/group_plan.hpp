// SPDX-License-Identifier: Apache-2.0
// What a backend needs to know of the group that it is made for: its ranks, its name and its limits.
#pragma once

#include "worker_sdk/comm/call.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace muster {

class JoinAlarm;

struct ProcessGroupOptions {
  /// The longest time that one call waits for the other ranks. Default: 10 minutes.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// The longest time that making the group waits for the other ranks. Default: 0, as long as a call.
  std::chrono::milliseconds join_timeout = std::chrono::milliseconds(0);
  /// A call that waits longer is reported on stderr, once, with the ranks that are missing. 0: never.
  /// Default: 15 seconds.
  std::chrono::milliseconds report_after = std::chrono::seconds(15);
  /// The name of the group, unique in the job. Default: "world".
  std::string name = "world";
  /// The number of restarts of the job so far (WorkerEnv::restart_count). It keeps a restarted job from the
  /// keys of its earlier rounds if the store outlives them, as under torchrun. Default: 0.
  int round = 0;
  /// The way in which messages combine and spread large buffers; the same on all ranks. Default: direct.
  Algorithm algorithm = Algorithm::direct;

  std::chrono::milliseconds join_limit() const { return join_timeout.count() > 0 ? join_timeout : timeout; }
};

/// One rank's view of a group that is to be made.
struct GroupPlan {
  int rank = 0;
  int size = 1;
  /// The ranks of the world that are in the group, in the order of their ranks in the group.
  std::vector<int> members = {};
  ProcessGroupOptions options = {};
  /// Ends the waits early while the group is made. Null: nothing ends them early.
  std::shared_ptr<JoinAlarm> alarm = {};
  /// The number of each rank in texts, if the group is a part of another; empty: their ranks in this group.
  std::vector<int> shown_ranks = {};

  int shown(int member) const {
    return shown_ranks.empty() ? member : shown_ranks[static_cast<std::size_t>(member)];
  }
};

}  // namespace muster
