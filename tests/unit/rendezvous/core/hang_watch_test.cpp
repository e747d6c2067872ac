// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/hang_watch.hpp"

#include "catch.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace hang_watch_test {

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

/// A round of two ranks and its watch.
struct Two {
  HangWatch watch;
  TimePoint now{1000s};

  explicit Two(std::size_t flight_memory = kFlightMemoryMax) : watch(60s, flight_memory) { watch.begin(2); }

  void tell(int rank, Activity activity, WaitKind wait, Milliseconds still = 10s) {
    RankHealth health;
    health.rank = rank;
    health.activity = activity;
    health.wait = wait;
    health.still = health.lasted = still;
    watch.tell(health, "n1", now);
  }

  void wait(int rank, WaitKind kind) { tell(rank, Activity::waits, kind); }

  void wait_for_key(int rank, const std::string& key) {
    RankHealth health;
    health.rank = rank;
    health.activity = Activity::waits;
    health.wait = WaitKind::store_key;
    health.key = key;
    health.still = health.lasted = 60s;
    watch.tell(health, "n1", now);
  }

  void move(int rank) { tell(rank, Activity::moves, WaitKind::unknown, 0s); }

  std::string after(Milliseconds time) {
    now += time;
    return watch.look(now).value_or("");
  }

  /// One rank in a collective, the other in a lock, and it has been said.
  void hang() {
    wait(0, WaitKind::communication);
    wait(1, WaitKind::lock);
    REQUIRE_THAT(after(50s), Contains("rank 1 on n1 is hung"));
  }
};

}  // namespace

TEST_CASE("A hang is said when its time has come, once") {
  Two two;
  CHECK_FALSE(two.watch.next_look());
  two.wait(0, WaitKind::communication);
  CHECK_FALSE(two.watch.next_look());
  two.wait(1, WaitKind::lock);
  CHECK(two.watch.next_look() == two.now + 50s);
  CHECK(two.after(49s).empty());
  CHECK_THAT(two.after(1s), Contains("rank 1 on n1 is hung"));
  CHECK(two.watch.verdict().level == HangLevel::is_hung);
  CHECK_FALSE(two.watch.next_look());
  CHECK(two.after(600s).empty());
}

TEST_CASE("It is said again when it changes, at most once a minute") {
  Two two;
  two.hang();
  two.wait(1, WaitKind::file);
  CHECK(two.after(59s).empty());
  CHECK_THAT(two.after(1s), Contains("rank 1 on n1 may be hung"));
  // What is as it was said is not said again.
  two.wait(1, WaitKind::file);
  CHECK(two.after(60s).empty());
  CHECK_FALSE(two.watch.next_look());
}

TEST_CASE("That the job moves again is said at once, and only after a hang was said") {
  Two two;
  two.wait(1, WaitKind::lock);
  two.move(1);
  CHECK(two.after(20s).empty());
  two.hang();
  two.move(1);
  CHECK(two.watch.next_look());
  CHECK(two.after(0s) == "rank 1 on n1 moves again");
  two.move(0);
  CHECK(two.after(0s).empty());
  // A second hang is one of its own.
  two.wait(0, WaitKind::communication);
  two.wait(1, WaitKind::lock);
  CHECK(two.after(59s).empty());
  CHECK_THAT(two.after(1s), Contains("rank 1 on n1 is hung"));
}

TEST_CASE("Who has ended with success is waited for in vain") {
  Two two;
  two.watch.ended(1, 5, "n2", two.now);
  two.wait(0, WaitKind::communication);
  CHECK(two.after(59s).empty());
  CHECK_THAT(two.after(1s), Contains("rank 1 on n2 has ended 60 s ago; rank 0 waits for other ranks"));
  // It is told by its agent and by its node's leave, and has ended only once.
  two.watch.ended(1, 1, "n2", two.now);
  CHECK(two.after(600s).empty());
  Two other;
  other.hang();
  other.watch.ended(1, 1, "n1", other.now);
  CHECK(other.after(0s) == "rank 1 on n1 has ended");
}

TEST_CASE("The end of a round ends the watch") {
  Two two;
  two.hang();
  two.watch.end();
  two.move(1);
  CHECK_FALSE(two.watch.next_look());
  CHECK(two.after(1s).empty());
  two.watch.begin(2);
  two.wait(0, WaitKind::communication);
  CHECK_FALSE(two.watch.next_look());
}

TEST_CASE("A rank that the round does not have changes nothing") {
  Two two;
  two.wait(0, WaitKind::communication);
  for (const int rank : {-1, 2, 1 << 30}) two.wait(rank, WaitKind::lock);
  CHECK_FALSE(two.watch.next_look());
}

TEST_CASE("The store is asked when all ranks have stood still for half of the time, and not all the time") {
  Two two;
  two.wait(0, WaitKind::communication);
  CHECK_FALSE(two.watch.next_question());
  two.wait(1, WaitKind::unknown);
  CHECK(two.watch.next_question() == two.now + 20s);
  CHECK_FALSE(two.watch.ask_store(two.now + 19s));
  CHECK(two.watch.ask_store(two.now + 20s));
  CHECK_FALSE(two.watch.ask_store(two.now + 29s));
  CHECK(two.watch.ask_store(two.now + 30s));
  two.move(1);
  CHECK_FALSE(two.watch.next_question());
  CHECK_FALSE(two.watch.ask_store(two.now + 90s));
}

TEST_CASE("The first line waits for the answers of the store that was asked late") {
  Two two;
  two.tell(0, Activity::waits, WaitKind::communication, 60s);
  two.tell(1, Activity::waits, WaitKind::unknown, 60s);
  REQUIRE(two.watch.ask_store(two.now));
  CHECK(two.watch.next_look() == two.now + kStoreAnswersWithin);
  CHECK(two.after(0s).empty());
  two.now += 100ms;
  two.wait_for_key(1, "epcoh");
  CHECK_THAT(two.after(400ms), Contains("rank 1 on n1 is hung: it waits for the store's key 'epcoh'"));
}

TEST_CASE("The first key that explains a hang is said at once, others when their minute has passed") {
  Two two;
  two.wait(0, WaitKind::communication);
  two.wait(1, WaitKind::unknown);
  REQUIRE_THAT(two.after(50s), Contains("does not show from outside"));
  two.now += 1s;
  two.wait_for_key(1, "epcoh");
  CHECK_THAT(two.after(kNewsBelongTogether), Contains("the store's key 'epcoh'"));
  two.wait_for_key(1, "other");
  CHECK(two.after(59s).empty());
  CHECK_THAT(two.after(1s), Contains("the store's key 'other'"));
  // What the first line has said needs no second one.
  Two known;
  known.wait(0, WaitKind::communication);
  known.wait_for_key(1, "epcoh");
  REQUIRE_THAT(known.after(50s), Contains("'epcoh'"));
  known.wait_for_key(1, "other");
  CHECK(known.after(59s).empty());
}

TEST_CASE("The first line waits for what the same look has found out of other ranks") {
  Two two;
  two.tell(0, Activity::waits, WaitKind::communication, 60s);
  two.tell(1, Activity::busy, WaitKind::unknown, 60s);
  CHECK(two.after(299ms).empty());
  two.wait(1, WaitKind::lock);
  CHECK(two.after(299ms).empty());
  CHECK_THAT(two.after(50s), Contains("rank 1 on n1 is hung: it waits for a lock"));
  // News that never end are not waited for.
  Two noisy;
  noisy.tell(0, Activity::waits, WaitKind::communication, 60s);
  std::string said;
  for (int i = 0; i < 10; ++i) {
    noisy.tell(1, Activity::busy, WaitKind::unknown, 60s + i * 250ms);
    CHECK(said.empty() == (i * 250ms < kNewsWaitedFor));
    if (said.empty()) said = noisy.after(250ms);
  }
  CHECK_THAT(said, Contains("rank 1 on n1 may be hung"));
}

TEST_CASE("After a pause nothing is said before the nodes have looked again") {
  Two two;
  two.wait(0, WaitKind::communication);
  two.wait(1, WaitKind::lock);
  CHECK(two.after(600s).empty());
  CHECK(two.watch.next_look() == two.now + kNewsAfterPause);
  Two healthy = two;
  healthy.now += 2s;
  healthy.move(0);
  healthy.move(1);
  CHECK(healthy.after(kNewsAfterPause).empty());
  CHECK_THAT(two.after(kNewsAfterPause), Contains("rank 1 on n1 is hung"));
}

TEST_CASE("A hang after the job has moved again is another one") {
  Two two;
  two.hang();
  two.move(0);
  CHECK_THAT(two.after(0ms), Contains("moves again"));
  two.tell(0, Activity::waits, WaitKind::communication, 0ms);
  CHECK(two.watch.next_look() == two.now + 60s);
}

TEST_CASE("A time-out of 0 watches nothing") {
  HangWatch watch(0s);
  watch.begin(1);
  RankHealth health;
  health.activity = Activity::waits;
  health.wait = WaitKind::communication;
  watch.tell(health, "n1", TimePoint(10s));
  CHECK_FALSE(watch.next_look());
}

TEST_CASE("What is wrong on a host is part of the verdict, and said with the first line that can have it") {
  Two two;
  two.watch.tell_host("n1", "the file system /scratch is full", two.now);
  two.wait(0, WaitKind::communication);
  two.wait(1, WaitKind::lock);
  CHECK_THAT(two.after(50s), EndsWith("since 60 s; on n1 the file system /scratch is full"));
  CHECK_THAT(two.watch.verdict().text, EndsWith("on n1 the file system /scratch is full"));
  CHECK(two.after(600s).empty());
  two.watch.tell_host("n1", "", two.now);
  CHECK_THAT(two.after(1s), EndsWith("since 661 s"));
}

TEST_CASE("What is found out of a host after a hang was said is told without the minute's wait") {
  Two two;
  two.hang();
  two.now += 5s;
  two.watch.tell_host("n1", "GPU 3 had Xid 79", two.now);
  CHECK_THAT(two.after(1s), EndsWith("; on n1 GPU 3 had Xid 79"));
  for (const char* host : {"n2", "n3", "n4", "n5"}) two.watch.tell_host(host, "x", two.now);
  CHECK(two.after(1s).empty());
  CHECK_THAT(two.after(60s), EndsWith("; on n2 x; on n3 x; the like on 2 more hosts"));
  two.move(1);
  CHECK_THAT(two.after(0s), Contains("moves again"));
  two.watch.begin(2);
  two.hang();
  CHECK(two.watch.verdict().text.find("Xid") == std::string::npos);
}

TEST_CASE("What is wrong on a host is no hang by itself") {
  Two two;
  two.watch.tell_host("n1", "the file system /scratch is full", two.now);
  two.wait(0, WaitKind::communication);
  CHECK(two.after(600s).empty());
}

namespace {

/// What the recorder of a rank of two has noted, whose last collective is not complete unless it is `done`.
FlightRank recorded(int rank, std::uint64_t last, bool done = false) {
  FlightGroup group{"default_pg", "0", {0, 1}, last, {}};
  if (!done) group.calls.push_back({last, "all_reduce", "[[4]]", "[[4]]", "[Float]", "scheduled"});
  return {rank, {group}};
}

}  // namespace

TEST_CASE("Flight records of ranks that stand still name the cause, and explain what was said") {
  Two two;
  two.wait(0, WaitKind::communication);
  two.wait(1, WaitKind::communication);
  CHECK_THAT(two.after(50s), Contains("all 2 ranks are hung"));
  two.watch.tell_flight(recorded(0, 41), two.now);
  two.watch.tell_flight(recorded(1, 40, true), two.now);
  CHECK_THAT(two.after(1s), Contains("rank 1 on n1 is hung") && Contains("never entered all_reduce 41"));
  CHECK(two.watch.verdict().culprits == std::vector<int>{1});
  // Another one comes no sooner than any other cause.
  two.watch.tell_flight(recorded(1, 39, true), two.now);
  CHECK(two.after(1s).empty());
}

TEST_CASE("Flight records for which there is no memory are left out, which is said") {
  Two two(std::size_t{1} << 20);
  const auto large = [](int rank, std::uint64_t last) {
    FlightRank record = recorded(rank, last);
    record.groups[0].ranks.assign(150'000, 0);  // more than half of that
    return record;
  };
  two.wait(0, WaitKind::communication);
  two.wait(1, WaitKind::communication);
  two.watch.tell_flight(large(0, 41), two.now);
  two.watch.tell_flight(large(1, 40), two.now);
  const std::string text = two.after(50s);
  CHECK_THAT(text, Contains("all 2 ranks are hung"));
  CHECK_THAT(text, Contains("; the flight record of rank 1 is left out: all together are larger than 1 MiB"));
  CHECK_FALSE(contains(text, "flight recorder"));
  // That of rank 0 makes room for it when the rank moves, and its own next one takes the place of the last.
  two.move(0);
  CHECK_THAT(two.after(1s), Contains("moves again"));
  two.wait(0, WaitKind::communication);
  two.watch.tell_flight(large(1, 40), two.now);
  two.watch.tell_flight(large(1, 40), two.now);
  const std::string next = two.after(60s);
  CHECK_THAT(next, Contains("all 2 ranks are hung"));
  CHECK_FALSE(contains(next, "left out"));
}

TEST_CASE("What a rank had noted that moves, has ended, or is of another round is not believed") {
  Two two;
  two.watch.tell_flight(recorded(0, 41), two.now);
  two.watch.tell_flight(recorded(7, 41), two.now);
  two.watch.tell_flight(recorded(-1, 41), two.now);
  two.wait(0, WaitKind::communication);
  two.wait(1, WaitKind::communication);
  two.watch.tell_flight(recorded(0, 41), two.now);
  two.watch.tell_flight(recorded(1, 40, true), two.now);
  two.move(1);
  two.wait(1, WaitKind::communication);
  // Of rank 1 nothing is known any more, so that nobody is missing for certain.
  const std::string text = two.after(60s);
  CHECK_THAT(text, Contains("all 2 ranks are hung"));
  CHECK_FALSE(contains(text, "flight recorder"));
  two.watch.begin(2);
  two.now += 1s;
  two.wait(0, WaitKind::communication);
  two.wait(1, WaitKind::communication);
  const std::string next = two.after(50s);
  CHECK_THAT(next, Contains("all 2 ranks are hung"));
  CHECK_FALSE(contains(next, "flight recorder"));
}

}  // namespace hang_watch_test
