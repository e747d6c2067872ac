// SPDX-License-Identifier: Apache-2.0
#include "launcher/history/core/goodput.hpp"

#include <algorithm>

namespace muster::launcher {
namespace {

std::chrono::milliseconds between(Goodput::TimePoint from, Goodput::TimePoint to) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(to - from);
}

}  // namespace

void Goodput::count_work(Milliseconds time) {
  (repeats_ ? shares_.recompute : shares_.useful) += time;
  if (!repeats_) useful_in_round_ += time;
}

void Goodput::count(TimePoint now) {
  // Whole milliseconds are counted, and the rest is kept for the next time, or the sum would fall behind.
  const auto from = since_;
  since_ += between(from, now);
  switch (phase_) {
    case Phase::start:
      shares_.start += between(from, now);
      break;
    case Phase::work: {
      const TimePoint still = std::clamp(hung_since_.value_or(now), from, now);
      const Milliseconds worked = between(from, still);
      count_work(worked);
      shares_.detect += between(from, now) - worked;
      break;
    }
    case Phase::detect:
      shares_.detect += between(from, now);
      break;
    case Phase::restart:
      shares_.restart += between(from, now);
      break;
    case Phase::end:
      shares_.end += between(from, now);
      break;
  }
}

void Goodput::enter(Phase next, TimePoint now) {
  count(now);
  hung_since_.reset();
  phase_ = next;
}

void Goodput::round_begins(int round, TimePoint now) {
  if (round <= round_ || phase_ == Phase::end) return;
  round_ = round;
  enter(Phase::work, now);
  repeats_ = steps_told_;
  useful_in_round_ = Milliseconds(0);
}

void Goodput::caught_up(TimePoint now) {
  if (phase_ != Phase::work || !repeats_) return;
  count(now);
  repeats_ = false;
}

void Goodput::failed(std::uint64_t step, TimePoint now) {
  steps_told_ = steps_told_ || step > 0;
  if (phase_ == Phase::work) enter(Phase::detect, now);
}

void Goodput::decided(bool again, std::uint64_t step, TimePoint now) {
  steps_told_ = steps_told_ || step > 0;
  if (phase_ != Phase::work && phase_ != Phase::detect) return;
  enter(again ? Phase::restart : Phase::end, now);
  if (!again || steps_told_) return;
  // Nobody knows from where the program goes on: perhaps from its beginning.
  shares_.useful -= useful_in_round_;
  shares_.recompute += useful_in_round_;
  shares_.at_most = shares_.at_most || useful_in_round_ > Milliseconds(0);
  useful_in_round_ = Milliseconds(0);
}

void Goodput::hung(Milliseconds still, TimePoint now) {
  // Another verdict on the same hang does not move its beginning.
  if (phase_ == Phase::work && !hung_since_) hung_since_ = now - still;
}

void Goodput::ends(TimePoint now) {
  if (phase_ != Phase::end) enter(Phase::end, now);
}

TimeShares Goodput::shares(TimePoint now) const {
  Goodput copy = *this;
  copy.count(now);
  return copy.shares_;
}

TimeShares Goodput::settled(TimePoint now) const {
  Goodput copy = *this;
  copy.hung_since_.reset();
  copy.count(now);
  return copy.shares_;
}

}  // namespace muster::launcher
