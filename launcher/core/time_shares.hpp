// SPDX-License-Identifier: Apache-2.0
// What the time of a job went into. Plain data.
#pragma once

#include <chrono>

namespace muster::launcher {

/// All of it together is the time that the job has lasted.
struct TimeShares {
  using Milliseconds = std::chrono::milliseconds;

  /// Workers ran, and nothing of what they did is known to be done again.
  Milliseconds useful{0};
  /// From the start of the job to its first round.
  Milliseconds start{0};
  /// From a failure to the decision about it, the stop of the other workers included; and the time for which
  /// no rank had moved where a hang led to an end, or stands.
  Milliseconds detect{0};
  /// From that decision to the next round.
  Milliseconds restart{0};
  /// Work that was done again after a restart: until a worker told the step that had been reached before.
  Milliseconds recompute{0};
  /// From the last decision, or the order to end, to the end of the job.
  Milliseconds end{0};
  /// Whether `recompute` is the most that it can be, as a program did not tell its steps (muster_set_step):
  /// all work of a round that a restart followed. Then `useful` is the least that it can be.
  bool at_most = false;

  Milliseconds total() const { return useful + start + detect + restart + recompute + end; }

  bool operator==(const TimeShares&) const = default;
};

}  // namespace muster::launcher
