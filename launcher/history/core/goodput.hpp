// SPDX-License-Identifier: Apache-2.0
// The useful share of a job's time ("goodput"), from what happens to it. Pure.
#pragma once

#include "launcher/core/time_shares.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace muster::launcher {

/// One thread. Times never go back.
class Goodput {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Milliseconds = std::chrono::milliseconds;

  /// The job begins.
  explicit Goodput(TimePoint now) : since_(now) {}

  /// A round begins to work. That of a further node of the same round changes nothing.
  void round_begins(int round, TimePoint now);

  /// A worker has told the step that was reached before the last restart.
  void caught_up(TimePoint now);

  /// The round has failed. The first failure counts. `step`: the highest that was told; 0: none.
  void failed(std::uint64_t step, TimePoint now);

  /// It was decided what follows the present round; `again`: another one.
  void decided(bool again, std::uint64_t step, TimePoint now);

  /// It is said that the job is or may be hung, and that no rank had moved for `still`.
  void hung(Milliseconds still, TimePoint now);

  /// A rank moves again: what was taken for a hang was none.
  void moves() { hung_since_.reset(); }

  /// The job was ordered to end, or has come to its end.
  void ends(TimePoint now);

  /// The shares up to now. A hang that stands counts as such.
  TimeShares shares(TimePoint now) const;

  /// The same, but a hang that stands is not taken for lost time yet: no loss ever gets smaller.
  TimeShares settled(TimePoint now) const;

 private:
  enum class Phase { start, work, detect, restart, end };

  /// Counts the time since the last change for the present phase, and begins the next one.
  void enter(Phase next, TimePoint now);
  void count(TimePoint now);
  void count_work(Milliseconds time);

  TimeShares shares_;
  Phase phase_ = Phase::start;
  TimePoint since_;
  int round_ = -1;
  std::optional<TimePoint> hung_since_;
  /// Work of the present round that counts as useful so far.
  Milliseconds useful_in_round_{0};
  bool steps_told_ = false;
  /// Whether the present round does again what an earlier one had done.
  bool repeats_ = false;
};

}  // namespace muster::launcher
