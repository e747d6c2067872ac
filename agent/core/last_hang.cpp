// SPDX-License-Identifier: Apache-2.0
#include "agent/core/last_hang.hpp"

#include <utility>

namespace muster::agent {
namespace {

std::int64_t milliseconds_between(rendezvous::TimePoint from, rendezvous::TimePoint to) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(to - from).count();
}

}  // namespace

void LastHang::notice(const rendezvous::JobNotice& notice, std::vector<HangStack> stacks,
                      rendezvous::TimePoint now) {
  if (ended_at_) return;
  if (notice.hang == rendezvous::HangLevel::none) {
    moved_at_ = now;
    return;
  }
  last_.level = notice.hang;
  last_.text = notice.text;
  last_.stacks = std::move(stacks);
  culprits_ = notice.culprits;
  said_at_ = now;
  moved_at_.reset();
}

void LastHang::end(rendezvous::TimePoint now) {
  if (!ended_at_) ended_at_ = now;
}

HangReport LastHang::report(rendezvous::TimePoint now) const {
  const rendezvous::TimePoint end = ended_at_.value_or(now);
  if (last_.level == rendezvous::HangLevel::none || (moved_at_ && end - *moved_at_ > kCountsFor)) return {};
  HangReport report = last_;
  report.said_ms = milliseconds_between(said_at_, end);
  if (moved_at_) report.moved_ms = milliseconds_between(*moved_at_, end);
  return report;
}

StandingHang LastHang::standing(rendezvous::TimePoint now) const {
  if (last_.level == rendezvous::HangLevel::none || moved_at_ || ended_at_) return {};
  return {last_.level, last_.text, milliseconds_between(said_at_, now), culprits_};
}

}  // namespace muster::agent
