// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/start_times.hpp"

#include "launcher/start/core/start_queue.hpp"

#include <algorithm>

namespace muster::launcher {
namespace {

using std::chrono::milliseconds;

/// Part of the login timeout that is kept to end the other starts and say what failed.
constexpr milliseconds kForTheEnd{1000};
/// More time for each other login that may be under way: this host has work with all of them.
constexpr milliseconds kForEachOther{250};
/// Part of the login timeout that is kept for all that comes after the connection.
constexpr std::chrono::seconds kForTheLogin{2};

}  // namespace

milliseconds greeting_limit(milliseconds login_timeout, std::size_t nodes) {
  const auto at_once = static_cast<std::size_t>(StartLimits{}.in_progress);
  const auto others = static_cast<int>(std::clamp<std::size_t>(nodes, 1, at_once)) - 1;
  return std::max(login_timeout - kForTheEnd, login_timeout / 2) + others * kForEachOther;
}

int connect_timeout_s(milliseconds login_timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(login_timeout - kForTheLogin);
  return std::max(1, static_cast<int>(seconds.count()));
}

}  // namespace muster::launcher
