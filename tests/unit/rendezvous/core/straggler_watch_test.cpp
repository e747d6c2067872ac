// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/straggler_watch.hpp"

#include "catch.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace straggler_watch_test {

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

/// A round of four ranks on two hosts, whose steps take as long as that of the slowest.
struct Four {
  StragglerWatch watch;
  TimePoint now{1000s};

  Four() { watch.begin(4); }

  void tell(int rank, int own_ms) {
    RankPace pace;
    pace.rank = rank;
    pace.step_us = 200'000;
    pace.own_us = static_cast<std::uint64_t>(own_ms) * 1000;
    watch.tell(pace, rank < 2 ? "n0" : "n1", now);
  }

  /// One look at each rank, of which rank 2 has this time of its own. Returns what is said.
  std::string look(int own_ms, int of_others_ms = 80) {
    now += 2s;
    for (int rank = 0; rank < 4; ++rank) tell(rank, rank == 2 ? own_ms : of_others_ms);
    const auto news = watch.news(now);
    return news ? (news->slow ? "! " : "- ") + news->text : "";
  }
};

}  // namespace

TEST_CASE("A rank that holds the others up again and again is said to be slow, once") {
  Four four;
  for (int i = 0; i < 7; ++i) CHECK(four.look(165).empty());
  CHECK(
      four.look(165) ==
      "! rank 2 on n1 is slow: 165 ms of its own a step, 2.1 times the median of all ranks (80 ms), in 8 of "
      "the last 8 looks; the other ranks wait for it");
  for (int i = 0; i < 60; ++i) CHECK(four.look(165).empty());
}

TEST_CASE("It is taken back when the rank is as fast as the others in most looks") {
  Four four;
  for (int i = 0; i < 10; ++i) four.look(165);
  for (int i = 0; i < 5; ++i) CHECK(four.look(80).empty());
  CHECK(four.look(81) == "- rank 2 is as fast as the others again");
  for (int i = 0; i < 20; ++i) CHECK(four.look(80).empty());
}

TEST_CASE("A rank that is slow now and then, by little, or by less than 20 ms is not named") {
  Four now_and_then;
  for (int i = 0; i < 40; ++i) CHECK(now_and_then.look(i % 3 == 0 ? 80 : 165).empty());
  Four by_little;
  for (int i = 0; i < 40; ++i) CHECK(by_little.look(103).empty());
  Four of_short_steps;
  for (int i = 0; i < 40; ++i) CHECK(of_short_steps.look(15, 5).empty());
  Four just_enough;
  for (int i = 0; i < 7; ++i) just_enough.look(104);
  CHECK_THAT(just_enough.look(104), Contains("1.3 times"));
}

TEST_CASE("Lines come at most each minute, and what has changed meanwhile is in the next") {
  Four four;
  for (int i = 0; i < 10; ++i) four.look(165);
  const TimePoint said = four.now;
  std::string text;
  while (text.empty() && four.now < said + 300s) {
    four.now += 2s;
    for (int rank = 0; rank < 4; ++rank) four.tell(rank, rank >= 2 ? 165 : 80);
    if (const auto news = four.watch.news(four.now)) text = news->text;
  }
  CHECK(four.now - said >= 50s);
  CHECK(four.now - said <= 62s);
  CHECK_THAT(text, Contains("rank 2 on n1 is slow"));
  CHECK_THAT(text, Contains("; rank 3 on n1 is slow"));
  CHECK_THAT(text, Contains("the other ranks wait for them"));
}

TEST_CASE("Of two ranks the faster one is the measure") {
  StragglerWatch watch;
  watch.begin(2);
  std::string text;
  for (int i = 0; i < 10; ++i)
    for (const int rank : {0, 1}) {
      RankPace pace;
      pace.rank = rank;
      pace.own_us = rank == 0 ? 160'000 : 80'000;
      watch.tell(pace, "n0", TimePoint(i * 2s));
      if (const auto news = watch.news(TimePoint(i * 2s))) text += news->text;
    }
  CHECK_THAT(text, Contains("rank 0 on n0 is slow: 160 ms of its own a step, 2.0 times"));
}

TEST_CASE("Without the pace of most ranks nobody is judged, nor of ranks that the round does not have") {
  Four four;
  for (int i = 0; i < 20; ++i) {
    four.tell(0, 500);
    four.tell(1, 10);
    four.tell(4, 10);
    four.tell(-1, 10);
    CHECK_FALSE(four.watch.news(four.now += 2s));
  }
  StragglerWatch alone;
  alone.begin(1);
  for (int i = 0; i < 20; ++i) alone.tell({0, 0, 1, 1, 1}, "n0", TimePoint(i * 2s));
  CHECK_FALSE(alone.news(TimePoint(100s)));
}

TEST_CASE("The next round begins without what was known of the last one") {
  Four four;
  for (int i = 0; i < 10; ++i) four.look(165);
  four.watch.begin(4);
  for (int i = 0; i < 7; ++i) CHECK(four.look(165).empty());
  CHECK_THAT(four.look(165), Contains("rank 2"));
}

TEST_CASE("Whatever a node tells, no time is too long") {
  Four four;
  for (int i = 0; i < 20; ++i)
    for (int rank = 0; rank < 4; ++rank) {
      RankPace pace;
      pace.rank = rank;
      pace.own_us = rank == 3 ? ~std::uint64_t{0} : 0;
      four.watch.tell(pace, "", four.now);
    }
  const auto news = four.watch.news(four.now);
  REQUIRE(news);
  CHECK_THAT(news->text, Contains("rank 3 is slow: "));
}

namespace {

/// Four ranks whose programs tell no steps, with ten calls a step of 200 ms, and so much of their own in it.
struct FourWithCalls : Four {
  std::string look_at_calls(const std::vector<int>& own_ms) {
    now += 2s;
    for (int rank = 0; rank < 4; ++rank) {
      RankPace pace;
      pace.rank = rank;
      pace.by_calls = true;
      pace.steps = 10;
      pace.step_us = 20'000;
      pace.own_us = static_cast<std::uint64_t>(own_ms[static_cast<std::size_t>(rank)]) * 100;
      watch.tell(pace, rank < 2 ? "n0" : "n1", now);
    }
    const auto news = watch.news(now);
    return news ? (news->slow ? "! " : "- ") + news->text : "";
  }
};

}  // namespace

TEST_CASE("Of a program that tells no steps the rank is named that comes last to its collectives") {
  FourWithCalls four;
  for (int i = 0; i < 7; ++i) CHECK(four.look_at_calls({80, 80, 165, 80}).empty());
  CHECK(four.look_at_calls({80, 80, 165, 80}) ==
        "! rank 2 on n1 comes last to its collectives: 9 ms after the median of all ranks, which have 8 ms "
        "between two of them, in 8 of the last 8 looks; the other ranks wait for it");
  for (int i = 0; i < 5; ++i) CHECK(four.look_at_calls({80, 80, 80, 80}).empty());
  CHECK(four.look_at_calls({80, 80, 80, 80}) == "- rank 2 is as fast as the others again");
}

TEST_CASE("Nobody comes last by little, now and then, or where all are as fast, with noise") {
  FourWithCalls by_little;
  for (int i = 0; i < 40; ++i) CHECK(by_little.look_at_calls({150, 150, 190, 150}).empty());
  FourWithCalls of_little;
  for (int i = 0; i < 40; ++i) CHECK(of_little.look_at_calls({2, 2, 20, 2}).empty());
  FourWithCalls in_turn;
  for (int i = 0; i < 40; ++i) {
    std::vector<int> own(4, 80);
    own[static_cast<std::size_t>(i % 4)] = 165;
    CHECK(in_turn.look_at_calls(own).empty());
  }
  FourWithCalls noise;
  std::uint32_t random = 1;
  for (int i = 0; i < 2000; ++i) {
    std::vector<int> own;
    for (int rank = 0; rank < 4; ++rank) {
      random = random * 1664525U + 1013904223U;
      own.push_back(80 + static_cast<int>(random >> 26U));
    }
    CHECK(noise.look_at_calls(own).empty());
  }
}

TEST_CASE(
    "One rank that tells steps does not silence the calls of the others, and what was said is taken back") {
  FourWithCalls four;
  RankPace steps;
  steps.rank = 0;
  steps.own_us = 80'000;
  four.watch.tell(steps, "n0", four.now);
  std::string said;
  for (int i = 0; i < 10; ++i) said += four.look_at_calls({80, 80, 165, 80});
  CHECK_THAT(said, Contains("rank 2 on n1 comes last"));
  for (int rank = 1; rank < 3; ++rank) {
    steps.rank = rank;
    four.watch.tell(steps, "n0", four.now);
  }
  CHECK(four.look(80) == "- rank 2 is as fast as the others again");
}

TEST_CASE("Once most ranks have told steps, calls say nothing") {
  FourWithCalls four;
  for (int i = 0; i < 7; ++i) four.look_at_calls({80, 80, 165, 80});
  for (int i = 0; i < 20; ++i) {
    CHECK(four.look(80).empty());
    CHECK(four.look_at_calls({80, 80, 165, 80}).empty());
  }
}

}  // namespace straggler_watch_test
