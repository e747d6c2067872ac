// SPDX-License-Identifier: Apache-2.0
#include "agent/core/notices.hpp"

#include "catch.hpp"

#include <csignal>

using namespace muster::agent;
using namespace std::chrono_literals;

TEST_CASE("A notice went to everybody if this process got it within 0.1 s of the launcher") {
  const auto launcher = std::chrono::steady_clock::time_point{} + 100s;
  const auto decided = launcher + 100ms;
  CHECK_FALSE(everybody_got(std::nullopt, decided));
  CHECK_FALSE(everybody_got(launcher - 101ms, decided));
  CHECK(everybody_got(launcher - 100ms, decided));
  CHECK(everybody_got(launcher, decided));
  CHECK(everybody_got(decided, decided));
}

TEST_CASE("A worker that does not handle a notice is named once for each signal") {
  UnheardNotices unheard;
  using Ranks = std::vector<int>;
  CHECK(unheard.to_name(SIGUSR1, {1, 3}) == Ranks{1, 3});
  CHECK(unheard.to_name(SIGUSR1, {1, 3}).empty());
  CHECK(unheard.to_name(SIGUSR1, {1, 2}) == Ranks{2});
  CHECK(unheard.to_name(SIGUSR2, {1}) == Ranks{1});
  CHECK(unheard.to_name(SIGUSR1, {}).empty());
}
