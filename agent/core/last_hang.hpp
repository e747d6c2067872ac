// SPDX-License-Identifier: Apache-2.0
// Keeps the last verdict on a hang, for who looks at a job and for its report. Pure.
#pragma once

#include "agent/core/node_report.hpp"
#include "agent/core/node_status.hpp"
#include "rendezvous/protocol/message.hpp"

#include <optional>
#include <vector>

namespace muster::agent {

/// One thread.
class LastHang {
 public:
  /// A verdict that is taken back earlier than this before the end has nothing to do with the end: that of a
  /// rank that gives up after its time-out is taken back as it prints why.
  static constexpr std::chrono::seconds kCountsFor{30};

  /// A round begins, of which nothing has been said.
  void begin_round() { *this = {}; }

  /// The coordinator has said a verdict, or taken it back; `stacks` are those of this node's ranks. Nothing
  /// is noted any more after end().
  void notice(const rendezvous::JobNotice& notice, std::vector<HangStack> stacks, rendezvous::TimePoint now);

  /// The round begins to end: a worker has failed, or there is an order to end. What comes of that is no
  /// verdict on the job. The first call counts.
  void end(rendezvous::TimePoint now);

  /// The verdict that held when the round began to end, or shortly before; of level none if there was none.
  /// Without an end() so far, that is now.
  HangReport report(rendezvous::TimePoint now) const;

  /// The verdict that stands now; of level none if there is none, it was taken back, or the round ends.
  StandingHang standing(rendezvous::TimePoint now) const;

 private:
  HangReport last_;
  std::vector<int> culprits_;
  rendezvous::TimePoint said_at_{};
  std::optional<rendezvous::TimePoint> moved_at_;
  std::optional<rendezvous::TimePoint> ended_at_;
};

}  // namespace muster::agent
