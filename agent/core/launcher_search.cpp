// SPDX-License-Identifier: Apache-2.0
#include "agent/core/launcher_search.hpp"

#include "agent/core/link_message.hpp"

#include <algorithm>
#include <utility>

namespace muster::agent {
namespace {

constexpr std::chrono::milliseconds kAskAgain{200};
constexpr std::chrono::milliseconds kAskWhileItLives{1000};

}  // namespace

LauncherSearch::Finding LauncherSearch::judge(const std::optional<rendezvous::LauncherState>& answer,
                                              rendezvous::TimePoint now) {
  // One that the coordinator does not know gives its orders by the link only.
  if (answer && !answer->known) return Finding::gone;
  const bool lives = answer && answer->connected;
  if (answer && (answer->ended || (!lives && answer->gone >= kGoneAfter))) return Finding::gone;
  if (lives) {
    last_alive_ = now;
    pause_ = std::exchange(next_pause_, std::min(2 * next_pause_, kAskWhileItLives));
    return Finding::lives;
  }
  pause_ = kAskAgain;
  return now - last_alive_ >= kGoneAfter ? Finding::gone : Finding::unsure;
}

bool is_heard(const rendezvous::LauncherState& answer) {
  return answer.known && (answer.connected || answer.gone < kLauncherSilentAtMost);
}

}  // namespace muster::agent
