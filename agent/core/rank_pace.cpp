// SPDX-License-Identifier: Apache-2.0
#include "agent/core/rank_pace.hpp"

#include <algorithm>
#include <limits>

namespace muster::agent {
namespace {

constexpr int kRanksPerSecond = 250;
constexpr std::uint64_t kNanosecondsPerMicrosecond = 1000;

}  // namespace

std::optional<rendezvous::RankPace> PaceMeter::add(const status::RankStatus& status) {
  if (status.step_ns == 0) return std::nullopt;
  const bool goes_on = step_ns_ != 0 && status.step > step_ && status.step_ns > step_ns_;
  const bool known = step_ns_ != 0 && status.step == step_;
  std::optional<rendezvous::RankPace> pace;
  if (goes_on) {
    const std::uint64_t steps = status.step - step_;
    const std::uint64_t all = status.step_ns - step_ns_;
    const std::uint64_t calls = status.step_calls_ns > calls_ns_ ? status.step_calls_ns - calls_ns_ : 0;
    pace.emplace();
    pace->round = round_;
    pace->rank = rank_;
    pace->steps = static_cast<int>(std::min<std::uint64_t>(steps, std::numeric_limits<int>::max()));
    pace->step_us = all / steps / kNanosecondsPerMicrosecond;
    pace->own_us = (all - std::min(all, calls)) / steps / kNanosecondsPerMicrosecond;
  }
  // A step that was told again, or a count that has begun anew, is a beginning and no pace.
  if (known) return std::nullopt;
  step_ = status.step;
  step_ns_ = status.step_ns;
  calls_ns_ = status.step_calls_ns;
  return pace;
}

std::int64_t seconds_between_paces(int world_size) {
  return 1 + std::max(world_size, 0) / kRanksPerSecond;
}

}  // namespace muster::agent
