// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/rank_text.hpp"

#include "catch.hpp"

using namespace muster::rendezvous;
using namespace std::chrono_literals;

TEST_CASE("What a rank does is told with its time, but for a rank that moves or has ended") {
  RankHealth health;
  CHECK(deed_text(health, false, 12s) == "moves");
  health.activity = Activity::ended;
  CHECK(deed_text(health, true, 12s) == "have ended");
  health.activity = Activity::busy;
  CHECK(deed_text(health, false, 12s) == "computes, and nothing else of it moves since 12 s");
  health.activity = Activity::waits;
  health.wait = WaitKind::store_key;
  health.key = "epcoh";
  CHECK(deed_text(health, false, 61'999ms) == "waits for the store's key 'epcoh' since 61 s");
  health.wait = WaitKind::communication;
  health.operation = "all_reduce";
  CHECK(deed_text(health, true, 5s) == "wait for all_reduce since 5 s");
  health.wait = WaitKind::stopped;
  CHECK(deed_text(health, false, 5s) == "is stopped by a signal since 5 s");
}

TEST_CASE("Who is held by the kernel is said to be, with the function") {
  RankHealth health;
  health.activity = Activity::waits;
  health.wait = WaitKind::file;
  health.held_in = "nfs_wait_bit_killable";
  CHECK(deed_text(health, false) == "is held by the kernel in nfs_wait_bit_killable");
  CHECK(deed_text(health, true) == "are held by the kernel in nfs_wait_bit_killable");
}
