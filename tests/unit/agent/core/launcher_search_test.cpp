// SPDX-License-Identifier: Apache-2.0
#include "agent/core/launcher_search.hpp"

#include "agent/core/link_message.hpp"
#include "catch.hpp"

using namespace muster::agent;
using namespace std::chrono_literals;
using muster::rendezvous::LauncherState;
using muster::rendezvous::TimePoint;
using Finding = LauncherSearch::Finding;

namespace {

constexpr TimePoint kBegin{};

LauncherState connected() {
  return {true, true, 0ms, false};
}

LauncherState gone_for(std::chrono::milliseconds time) {
  return {true, false, time, false};
}

}  // namespace

TEST_CASE("A launcher whose link is cut lives as long as the coordinator has a connection to it") {
  LauncherSearch search(kBegin);
  CHECK(search.judge(connected(), kBegin + 1h) == Finding::lives);
  CHECK(search.judge(gone_for(2999ms), kBegin + 1h + 1s) == Finding::unsure);
  CHECK(search.judge(gone_for(3000ms), kBegin + 1h + 1s) == Finding::gone);
}

TEST_CASE("A launcher that ended, or that the coordinator never heard of, is gone at once") {
  LauncherState ended = connected();
  ended.ended = true;
  CHECK(LauncherSearch(kBegin).judge(ended, kStart) == Finding::gone);
  LauncherState unknown = connected();
  unknown.known = false;
  CHECK(LauncherSearch(kBegin).judge(unknown, kStart) == Finding::gone);
}

TEST_CASE("Without an answer a launcher is given up three seconds after it was last known to live") {
  LauncherSearch search(kBegin);
  CHECK(search.judge(std::nullopt, kBegin + 2999ms) == Finding::unsure);
  CHECK(search.judge(connected(), kBegin + 5s) == Finding::lives);
  CHECK(search.judge(std::nullopt, kBegin + 7s) == Finding::unsure);
  CHECK(search.judge(std::nullopt, kBegin + 8s) == Finding::gone);
}

TEST_CASE("The first questions follow each other soon, and those about a lost one come steadily") {
  LauncherSearch search(kBegin);
  std::vector<std::chrono::milliseconds> pauses;
  for (int i = 0; i < 8; ++i) {
    CHECK(search.judge(connected(), kBegin) == Finding::lives);
    pauses.push_back(search.pause());
  }
  CHECK(pauses ==
        std::vector<std::chrono::milliseconds>{20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 1000ms, 1000ms});
  CHECK(search.judge(std::nullopt, kBegin) == Finding::unsure);
  CHECK(search.pause() == 200ms);
}

TEST_CASE("A silent launcher is heard if the coordinator has it, or has had it until a moment ago") {
  CHECK(is_heard(connected()));
  CHECK(is_heard(gone_for(kLauncherSilentAtMost - 1ms)));
  CHECK_FALSE(is_heard(gone_for(kLauncherSilentAtMost)));
  LauncherState unknown = connected();
  unknown.known = false;
  CHECK_FALSE(is_heard(unknown));
}
