// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/start_times.hpp"

#include "launcher/start/core/start_queue.hpp"

#include <algorithm>

namespace muster::launcher {
namespace {

using std::chrono::milliseconds;

/// Of the login timeout, to end the others and say what failed.
constexpr milliseconds kForTheEnd{1000};
/// For each other login that may be under way: the host has work with all of them.
constexpr milliseconds kForEachOther{250};
/// Of the login timeout, for all that comes after the connection.
constexpr std::chrono::seconds kForTheLogin{2};
/// From the moment when a host gives up a node to the word that it has.
constexpr milliseconds kWordLateAfter{6000};
/// Of the executable, over a slow network.
constexpr std::chrono::minutes kForCopies{10};
/// What clocks can hold.
constexpr std::chrono::hours kNeverLonger{24 * 10'000};

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

milliseconds silence_limit(milliseconds login_timeout, std::size_t width) {
  return std::max(greeting_limit(login_timeout, width + 1), kForkLateAfter) + kWordLateAfter;
}

milliseconds tree_limit(milliseconds login_timeout, std::size_t width, std::size_t levels, bool copies) {
  // All of a host's nodes may have the same login server, which lets in one after the other.
  const milliseconds of_a_level =
      static_cast<int>(width) * (silence_limit(login_timeout, width) + StartLimits{}.patience) +
      (copies ? milliseconds(kForCopies) : milliseconds(0));
  return std::min(static_cast<int>(levels) * of_a_level, milliseconds(kNeverLonger));
}

}  // namespace muster::launcher
