// SPDX-License-Identifier: Apache-2.0
// Finds the ranks for which the others wait step after step. Pure.
//
// In a job whose ranks meet in each step all of them are equally fast, so their step times do not tell who
// holds the others up. What differs is the part of a step in which a rank is in no call with others: its own
// time. A rank is slow whose own time is well above the median of all ranks again and again. Where a program
// tells no steps, the same is seen between its calls: who has most time of its own there comes last to them.
#pragma once

#include "rendezvous/protocol/message.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::rendezvous {

/// A rank's own time counts as slow from this part of the median on, in percent, and this far above it.
inline constexpr std::uint64_t kSlowPercent = 130;
inline constexpr std::uint64_t kSlowAtLeastUs = 20'000;
/// The same of the time of its own in a second, of a program that tells no steps: of many calls in a step
/// each is late by little.
inline constexpr std::uint64_t kLateAtLeastUsPerSecond = 100'000;
/// The number of looks at a rank that count, how many of them have to be slow before it is said, and with how
/// few it is taken back, so that a rank between the two is not said again and again.
inline constexpr int kLooksKept = 10;
inline constexpr int kSlowLooks = 8;
inline constexpr int kFastAgainLooks = 4;
/// The shortest time between two lines.
inline constexpr Milliseconds kSlowSaidEach = std::chrono::minutes(1);

/// One thread.
class StragglerWatch {
 public:
  /// A round has begun, or is over (0 ranks): nothing is known of its ranks.
  void begin(int world_size);

  /// A look at one rank: what its node has told of its last steps or calls. A rank that the round does not
  /// have is ignored. Calls are compared until more than half of the ranks have told steps, then steps;
  /// nothing is judged until more than half of the ranks have told of what is compared.
  void tell(const RankPace& pace, const std::string& host, TimePoint now);

  /// What is to be said now, if anything: which ranks are slow, by how much and how often, when others are
  /// slow than was said last; or that none is any more. At most each kSlowSaidEach, but the latter at once.
  std::optional<SlowRanks> news(TimePoint now);

 private:
  struct Rank {
    std::string host{};
    /// In a step, or in a second.
    std::uint64_t own_us = 0;
    /// The last looks, the newest in bit 0: whether the rank was slow.
    std::uint32_t looks = 0;
    int looks_count = 0;
    /// What was slow in it when it was so last: its own time in a step or between two calls, and the median
    /// then.
    std::uint64_t slow_us = 0;
    std::uint64_t median_us = 0;
    bool is_slow = false;
  };

  static int slow_looks(const Rank& rank);
  std::uint64_t median(TimePoint now);
  bool is_slow_now(const RankPace& pace, Rank& rank, TimePoint now);
  std::string rank_text(int number) const;
  std::string slow_text() const;

  /// The ranks that have told their pace.
  std::map<int, Rank> ranks_;
  int world_size_ = 0;
  bool by_calls_ = true;
  /// While calls are compared: the ranks that have told steps, and their last ones.
  std::map<int, Rank> tell_steps_;
  std::uint64_t median_us_ = 0;
  std::optional<TimePoint> median_at_;
  std::size_t median_of_ = 0;
  std::vector<int> slow_;
  /// The ranks that were said to be slow, and when.
  std::vector<int> said_;
  std::optional<TimePoint> said_at_;
};

}  // namespace muster::rendezvous
