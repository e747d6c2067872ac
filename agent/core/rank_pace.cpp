// SPDX-License-Identifier: Apache-2.0
#include "agent/core/rank_pace.hpp"

#include <algorithm>
#include <limits>

namespace muster::agent {
namespace {

constexpr int kRanksPerSecond = 250;
constexpr std::uint64_t kNanosecondsPerMicrosecond = 1000;

/// The time so far during which the process was in any call, the one included in which it is now.
std::uint64_t time_in_calls(const status::RankStatus& status, std::uint64_t now_ns) {
  std::uint64_t since = now_ns;
  for (const status::GroupStatus& group : status.groups)
    if (group.state == status::GroupState::in_call && !group.torn) since = std::min(since, group.entered_ns);
  return status.calls_ns + (now_ns - since);
}

}  // namespace

std::optional<rendezvous::RankPace> PaceMeter::add_calls(const status::RankStatus& status,
                                                         std::uint64_t now_ns) {
  const std::uint64_t in_calls = time_in_calls(status, now_ns);
  const bool goes_on = calls_at_ns_ != 0 && status.calls >= calls_ && now_ns > calls_at_ns_;
  if (goes_on && status.calls - calls_ < kCallsOfPace) return std::nullopt;
  std::optional<rendezvous::RankPace> pace;
  if (goes_on) {
    const std::uint64_t calls = status.calls - calls_;
    const std::uint64_t all = now_ns - calls_at_ns_;
    const std::uint64_t in_them = in_calls > in_calls_ns_ ? in_calls - in_calls_ns_ : 0;
    pace.emplace();
    pace->round = round_;
    pace->rank = rank_;
    pace->by_calls = true;
    pace->steps = static_cast<int>(std::min<std::uint64_t>(calls, std::numeric_limits<int>::max()));
    pace->step_us = all / calls / kNanosecondsPerMicrosecond;
    pace->own_us = (all - std::min(all, in_them)) / calls / kNanosecondsPerMicrosecond;
  }
  calls_ = status.calls;
  calls_at_ns_ = now_ns;
  in_calls_ns_ = in_calls;
  return pace;
}

std::optional<rendezvous::RankPace> PaceMeter::add(const status::RankStatus& status, std::uint64_t now_ns) {
  if (status.step_ns == 0) return add_calls(status, now_ns);
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
