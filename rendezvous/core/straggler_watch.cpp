// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/straggler_watch.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/core/rank_text.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

namespace muster::rendezvous {
namespace {

/// The time for which a median is used again: of many ranks it is not made anew with each message.
constexpr Milliseconds kMedianHolds{1000};
/// Ranks that one line describes; further ones are only named.
constexpr std::size_t kRanksInText = 4;

constexpr std::uint64_t kMicrosecondsPerSecond = 1'000'000;

/// Bounded, so that no product is too large for its type.
std::uint64_t bounded(std::uint64_t us) {
  return std::min<std::uint64_t>(us, std::uint64_t{1} << 43U);
}

std::string milliseconds_text(std::uint64_t us) {
  return std::to_string((us + 500) / 1000) + " ms";
}

/// "1.9 times"; of a median of nothing no part is told.
std::string times_text(std::uint64_t us, std::uint64_t median_us) {
  if (median_us == 0) return "";
  const std::uint64_t tenths = (us * 10 + median_us / 2) / median_us;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " times ";
}

}  // namespace

void StragglerWatch::begin(int world_size) {
  *this = {};
  world_size_ = world_size;
}

int StragglerWatch::slow_looks(const Rank& rank) {
  return std::popcount(rank.looks);
}

/// The lower one of the two in the middle, so that of two ranks the faster one is the measure.
std::uint64_t StragglerWatch::median(TimePoint now) {
  if (median_at_ && now - *median_at_ < kMedianHolds && median_of_ == ranks_.size()) return median_us_;
  std::vector<std::uint64_t> times;
  times.reserve(ranks_.size());
  for (const auto& [number, rank] : ranks_) times.push_back(rank.own_us);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  median_us_ = *middle;
  median_at_ = now;
  median_of_ = ranks_.size();
  return median_us_;
}

/// Compares the rank with all others, and keeps by how much it is slow.
bool StragglerWatch::is_slow_now(const RankPace& pace, Rank& rank, TimePoint now) {
  const std::uint64_t of_all = median(now);
  const std::uint64_t at_least = by_calls_ ? kLateAtLeastUsPerSecond : kSlowAtLeastUs;
  const bool slow = rank.own_us * 100 >= of_all * kSlowPercent && rank.own_us >= of_all + at_least;
  if (!slow) return false;
  rank.slow_us = rank.own_us;
  rank.median_us = of_all;
  if (by_calls_) {
    // The others' calls are as far apart as its own, since all of them meet in each.
    const std::uint64_t apart = bounded(pace.step_us);
    rank.slow_us = rank.slow_us * apart / kMicrosecondsPerSecond;
    rank.median_us = rank.median_us * apart / kMicrosecondsPerSecond;
  }
  return true;
}

void StragglerWatch::tell(const RankPace& pace, const std::string& host, TimePoint now) {
  if (pace.rank < 0 || pace.rank >= world_size_ || (pace.by_calls && !by_calls_)) return;
  if (!pace.by_calls && by_calls_) {
    Rank& told = tell_steps_[pace.rank];
    told.host = host;
    told.own_us = bounded(pace.own_us);
    if (tell_steps_.size() * 2 <= static_cast<std::size_t>(world_size_)) return;
    // What is known of calls cannot be compared with steps; what was said is taken back in its time.
    StragglerWatch by_steps;
    by_steps.begin(world_size_);
    by_steps.by_calls_ = false;
    by_steps.ranks_ = std::move(tell_steps_);
    by_steps.said_ = std::move(said_);
    by_steps.said_at_ = said_at_;
    *this = std::move(by_steps);
  }
  Rank& rank = ranks_[pace.rank];
  rank.host = host;
  rank.own_us = bounded(pace.own_us);
  if (pace.by_calls)
    rank.own_us =
        std::min(rank.own_us * kMicrosecondsPerSecond / std::max<std::uint64_t>(bounded(pace.step_us), 1),
                 kMicrosecondsPerSecond);
  if (world_size_ < 2 || ranks_.size() * 2 <= static_cast<std::size_t>(world_size_)) return;
  const bool slow = is_slow_now(pace, rank, now);
  rank.looks = (rank.looks << 1U | (slow ? 1U : 0U)) & ((1U << kLooksKept) - 1U);
  rank.looks_count = std::min(rank.looks_count + 1, kLooksKept);
  const int count = slow_looks(rank);
  const bool is_slow = rank.is_slow ? count > kFastAgainLooks : count >= kSlowLooks;
  if (is_slow == rank.is_slow) return;
  rank.is_slow = is_slow;
  if (is_slow)
    slow_.insert(std::lower_bound(slow_.begin(), slow_.end(), pace.rank), pace.rank);
  else
    std::erase(slow_, pace.rank);
}

/// "rank 2 on n1 is slow: 165 ms of its own a step, 1.9 times the median (85 ms), in 9 of the last 10 looks",
/// or "rank 2 on n1 comes last to its collectives: 80 ms after the median of all ranks, which have 85 ms
/// between two of them, in 9 of the last 10 looks".
std::string StragglerWatch::rank_text(int number) const {
  const Rank& rank = ranks_.at(number);
  std::string text = ranks_text({number}) + (rank.host.empty() ? "" : " on " + rank.host);
  if (by_calls_)
    text += " comes last to its collectives: " + milliseconds_text(rank.slow_us - rank.median_us) +
            " after the median of all ranks, which have " + milliseconds_text(rank.median_us) +
            " between two of them";
  else
    text += " is slow: " + milliseconds_text(rank.slow_us) + " of its own a step, " +
            times_text(rank.slow_us, rank.median_us) + "the median of all ranks (" +
            milliseconds_text(rank.median_us) + ")";
  return text + ", in " + std::to_string(slow_looks(rank)) + " of the last " +
         std::to_string(rank.looks_count) + " looks";
}

std::string StragglerWatch::slow_text() const {
  std::string text;
  for (std::size_t i = 0; i < std::min(slow_.size(), kRanksInText); ++i)
    text += (i == 0 ? "" : "; ") + rank_text(slow_[i]);
  if (slow_.size() > kRanksInText)
    text +=
        "; so are " + ranks_text({slow_.begin() + static_cast<std::ptrdiff_t>(kRanksInText), slow_.end()});
  return text + "; the other ranks wait for " + (slow_.size() == 1 ? "it" : "them");
}

std::optional<SlowRanks> StragglerWatch::news(TimePoint now) {
  if (slow_ == said_) return std::nullopt;
  SlowRanks news;
  if (slow_.empty()) {
    news.text = ranks_text(said_) + (said_.size() == 1 ? " is" : " are") + " as fast as the others again";
  } else {
    if (said_at_ && now - *said_at_ < kSlowSaidEach) return std::nullopt;
    news.slow = true;
    news.text = slow_text();
    said_at_ = now;
  }
  said_ = slow_;
  return news;
}

}  // namespace muster::rendezvous
