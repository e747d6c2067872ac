// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/hang_verdict.hpp"

#include "catch.hpp"

#include <string>
#include <utility>
#include <vector>

namespace hang_verdict_test {

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

const TimePoint kNow(1000s);

RankView rank_in(WaitKind kind, const std::string& operation = "", int line = 41) {
  RankView rank;
  rank.health.activity = Activity::waits;
  rank.health.wait = kind;
  rank.health.operation = operation;
  rank.health.place = {"/home/u/train.py", line, "main"};
  rank.moved_at = kNow - 61s;
  rank.since = kNow - 61s;
  return rank;
}

RankView in_collective(const std::string& operation = "all_reduce", int line = 50) {
  return rank_in(WaitKind::communication, operation, line);
}

RankView numbered(const std::string& group, std::uint64_t sequence) {
  RankView rank = in_collective();
  rank.health.group = group;
  rank.health.sequence = sequence;
  return rank;
}

RankView stirring(WaitKind kind) {
  RankView rank = rank_in(kind);
  rank.health.stirs = true;
  return rank;
}

RankView busy() {
  RankView rank = rank_in(WaitKind::unknown);
  rank.health.activity = Activity::busy;
  return rank;
}

RankView moving() {
  RankView rank;
  rank.moved_at = kNow;
  return rank;
}

RankView at_key(const std::string& key, const std::string& nearest, const std::string& operation = "") {
  RankView rank = rank_in(WaitKind::store_key, operation);
  rank.health.key = key;
  rank.health.nearest = nearest;
  return rank;
}

/// These ranks in their order, four on each host.
HangVerdict verdict_of(std::vector<RankView> ranks, Milliseconds timeout = 60s) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].health.rank = static_cast<int>(i);
    ranks[i].host = "n" + std::to_string(i / 4);
  }
  return judge_hang(ranks, timeout, kNow);
}

/// Rank 3 of four in something, the others in a collective.
HangVerdict third(const RankView& odd, const RankView& others = in_collective()) {
  return verdict_of({others, others, others, odd});
}

}  // namespace

TEST_CASE("Of twelve hung programs the cause is named, with its line") {
  const RankView send = in_collective("send", 20);
  const RankView recv = in_collective("recv", 21);
  RankView loader = rank_in(WaitKind::helpers);
  const std::vector<std::tuple<const char*, HangVerdict, HangLevel, std::vector<int>>> programs{
      {"a lock", third(rank_in(WaitKind::lock)), HangLevel::is_hung, {3}},
      {"time.sleep", third(rank_in(WaitKind::sleep)), HangLevel::is_hung, {3}},
      {"an infinite loop in Python", third(busy()), HangLevel::may_be, {3}},
      {"an infinite loop in C", third(busy(), in_collective("barrier")), HangLevel::may_be, {3}},
      {"a rank that skips a collective", third(in_collective("barrier", 60)), HangLevel::is_hung, {3}},
      {"all_gather against broadcast",
       verdict_of({in_collective("all_gather"), in_collective("all_gather"), in_collective("broadcast")}),
       HangLevel::is_hung,
       {2}},
      {"send and recv with other tags", verdict_of({send, recv}), HangLevel::is_hung, {0, 1}},
      {"a key that never comes", third(at_key("never", "")), HangLevel::is_hung, {3}},
      {"a rank missing in new_group",
       verdict_of({at_key("g/0", "", "new_group"), at_key("g/1", "", "new_group"), in_collective()}),
       HangLevel::is_hung,
       {2}},
      {"a data loader whose worker is locked", third(loader), HangLevel::is_hung, {3}},
      {"SIGSTOP", third(rank_in(WaitKind::stopped)), HangLevel::is_hung, {3}},
      {"a read that is never answered", third(rank_in(WaitKind::file)), HangLevel::may_be, {3}},
  };
  for (const auto& [program, verdict, level, culprits] : programs) {
    INFO(program);
    CHECK(verdict.level == level);
    CHECK(verdict.culprits == culprits);
    CHECK_THAT(verdict.text, Contains("rank " + std::to_string(culprits.back())));
    CHECK_THAT(verdict.text, Contains("train.py:"));
    CHECK(contains(verdict.text, "hung: ") == true);
  }
}

TEST_CASE("Of ten slow healthy programs none is called hung") {
  RankView prompt = rank_in(WaitKind::terminal);
  const RankView idle = rank_in(WaitKind::events);
  RankView slow = in_collective();
  slow.moved_at = kNow - 40s;
  const std::vector<std::pair<const char*, HangVerdict>> programs{
      {"a long computation in C on one rank", third(busy())},
      {"a compilation in a child", third(moving())},
      {"a checkpoint in one write", third(stirring(WaitKind::file))},
      {"evaluation on rank 0, the others in a barrier", third(busy(), in_collective("barrier"))},
      {"pdb on one rank", third(prompt)},
      {"an idle server", verdict_of({idle, idle})},
      {"an idle server in front of ranks that wait for it", third(idle, in_collective("broadcast"))},
      {"a data loader that warms up", third(moving())},
      {"polling with sleeps", third(stirring(WaitKind::sleep))},
      {"a step of 40 s", verdict_of({slow, slow})},
      {"a notebook's kernel", third(idle)},
  };
  for (const auto& [program, verdict] : programs) {
    INFO(program);
    CHECK(verdict.level != HangLevel::is_hung);
    CHECK_FALSE(contains(verdict.text, "is hung"));
    CHECK_FALSE(contains(verdict.text, "are hung"));
  }
  CHECK(programs[1].second.level == HangLevel::none);
  CHECK(programs[5].second.level == HangLevel::none);
  CHECK(programs[9].second.level == HangLevel::none);
}

TEST_CASE("The line names the odd rank, and what the others wait for since when") {
  std::vector<RankView> ranks(8, in_collective());
  ranks[3] = rank_in(WaitKind::lock);
  ranks[3].since = kNow - 70s;
  CHECK(verdict_of(ranks).text ==
        "rank 3 on n0 (train.py:41 in main) is hung: it waits for a lock or an event since 70 s; ranks 0-2, "
        "4-7 "
        "wait for all_reduce since 61 s");
  ranks[5] = ranks[3];
  ranks[6] = ranks[3];
  CHECK(
      verdict_of(ranks).text ==
      "rank 3 on n0 (train.py:41 in main) is hung: it waits for a lock or an event since 70 s; ranks 5, 6 on "
      "n1 (train.py:41 in main) are hung: they wait for a lock or an event since 70 s; ranks 0-2, 4, 7 wait "
      "for "
      "all_reduce since 61 s");
}

TEST_CASE("A key that nobody has set is named with the one that was meant") {
  CHECK_THAT(
      third(at_key("epcoh", "epoch")).text,
      Contains("rank 3 on n0 (train.py:41 in main) is hung: it waits for the store's key 'epcoh' since 61 s, "
               "which nobody has set; 'epoch' exists; ranks 0-2 wait for all_reduce"));
  CHECK_THAT(third(at_key("never", "")).text, Contains("which nobody has set; ranks 0-2"));
  const HangVerdict all = verdict_of({at_key("epcoh", "epoch"), at_key("epcoh", "epoch")});
  CHECK(all.level == HangLevel::is_hung);
  CHECK(all.culprits.empty());
  CHECK_THAT(all.text, Contains("all 2 ranks are hung: ranks 0, 1 wait for the store's key 'epcoh'"));
  CHECK_THAT(all.text, Contains("'epoch' exists"));
}

TEST_CASE("Ranks that agree have lost each other") {
  const HangVerdict verdict = verdict_of(std::vector<RankView>(8, in_collective()));
  CHECK(verdict.level == HangLevel::is_hung);
  CHECK(verdict.culprits.empty());
  CHECK(verdict.text ==
        "all 8 ranks are hung: ranks 0-7 wait for all_reduce since 61 s (train.py:50 in main), and no rank "
        "is missing: "
        "communication or hardware");
  CHECK_THAT(verdict_of(std::vector<RankView>(2, in_collective("recv"))).text,
             EndsWith("(train.py:50 in main): each waits for a message of another"));
  // They may still connect to each other, as NCCL does in its first collective.
  std::vector<RankView> connecting(8, in_collective());
  for (RankView& rank : connecting) rank.health.stirs = true;
  CHECK(verdict_of(connecting).level == HangLevel::may_be);
  CHECK_THAT(verdict_of(connecting).text, Contains("all 8 ranks may be hung: ranks 0-7 wait for all_reduce"));
  // In the same collective, but one is in another line of the program.
  std::vector<RankView> ranks(8, in_collective());
  ranks[6] = in_collective("all_reduce", 77);
  CHECK(verdict_of(ranks).culprits == std::vector<int>{6});
}

TEST_CASE("Of two ranks the cause is the one that is in no collective, or in an earlier one") {
  CHECK(verdict_of({rank_in(WaitKind::lock), in_collective()}).culprits == std::vector<int>{0});
  CHECK(verdict_of({in_collective(), busy()}).culprits == std::vector<int>{1});
  CHECK(verdict_of({numbered("world", 12), numbered("world", 11)}).culprits == std::vector<int>{1});
  CHECK(verdict_of({numbered("world", 12), numbered("dp", 11)}).culprits == std::vector<int>{0, 1});
  CHECK(verdict_of({at_key("never", ""), in_collective("barrier")}).culprits == std::vector<int>{0});
  CHECK(verdict_of({in_collective("all_gather"), in_collective("broadcast")}).culprits ==
        std::vector<int>{0, 1});
}

TEST_CASE("Of a group of some ranks the member is named that never came, and not those who wait for it") {
  const RankView member = at_key("0/1", "", "new_group");
  const std::vector<RankView> ranks{member, in_collective("all_reduce", 77), in_collective(),
                                    in_collective()};
  CHECK(verdict_of(ranks).culprits == std::vector<int>{1});
  CHECK_THAT(verdict_of(ranks).text,
             Contains("rank 1 on n0 (train.py:77 in main) is hung: it waits for all_reduce"));
  // Nobody stands out among the others.
  CHECK(verdict_of({member, in_collective(), in_collective(), in_collective()}).culprits ==
        std::vector<int>{0});
}

TEST_CASE("Ranks that wait for each other in different calls or lines are all named with theirs") {
  CHECK(verdict_of({in_collective("barrier", 20), in_collective("all_reduce", 21)}).text ==
        "ranks 0, 1 are hung: rank 0 on n0 (train.py:20 in main) waits for barrier since 61 s; rank 1 on n0 "
        "(train.py:21 in main) waits for all_reduce since 61 s: they are in different collectives");
  const HangVerdict tags = verdict_of({in_collective("recv", 20), in_collective("recv", 22)});
  CHECK(tags.level == HangLevel::is_hung);
  CHECK(tags.culprits == std::vector<int>{0, 1});
  CHECK(tags.text ==
        "ranks 0, 1 are hung: rank 0 on n0 (train.py:20 in main) waits for recv since 61 s; rank 1 on n0 "
        "(train.py:22 in main) waits for recv since 61 s: their messages do not match");
  CHECK_THAT(verdict_of({in_collective("barrier", 20), in_collective("recv", 21)}).text,
             EndsWith("they are in different calls"));
  const HangVerdict apart =
      verdict_of({in_collective("recv", 20), in_collective("recv", 22), in_collective(), in_collective()});
  CHECK(apart.culprits == std::vector<int>{0, 1});
  CHECK_THAT(apart.text, Contains("(train.py:22 in main) is hung: it waits for recv") &&
                             EndsWith("; ranks 2, 3 wait for all_reduce since 61 s"));
  const RankView one = in_collective("all_reduce", 20);
  const RankView other = in_collective("all_reduce", 22);
  CHECK_THAT(verdict_of({one, other, one, other}).text,
             Contains("ranks 0, 2 on n0 (train.py:20 in main) wait for all_reduce") &&
                 EndsWith("they are in different lines"));
  // That a line is not known makes it no other one.
  RankView unknown = in_collective();
  unknown.health.place = {};
  CHECK_THAT(verdict_of({in_collective(), unknown}).text, EndsWith("communication or hardware"));
}

TEST_CASE("A stopped rank is the cause, though the others seem to compute or wait for something else") {
  const RankView stopped = rank_in(WaitKind::stopped);
  const HangVerdict spinning = verdict_of({busy(), busy(), stopped});
  CHECK(spinning.level == HangLevel::may_be);
  CHECK(spinning.culprits == std::vector<int>{2});
  CHECK(spinning.text ==
        "rank 2 on n0 (train.py:41 in main) may be hung: it is stopped by a signal since 61 s; ranks 0, 1 "
        "compute, and nothing else of them moves since 61 s");
  const HangVerdict waiting = verdict_of({rank_in(WaitKind::lock), stopped, rank_in(WaitKind::lock)});
  CHECK(waiting.level == HangLevel::is_hung);
  CHECK(waiting.culprits == std::vector<int>{1});
  CHECK_THAT(waiting.text, EndsWith("; ranks 0, 2 wait for a lock or an event since 61 s"));
  CHECK(verdict_of({rank_in(WaitKind::lock), in_collective(), stopped}).culprits == std::vector<int>{2});
  CHECK(verdict_of({stopped, stopped}).level == HangLevel::is_hung);
  CHECK(verdict_of({moving(), stopped}).level == HangLevel::none);
}

TEST_CASE("Who is at another number than the majority is the cause, even ahead of it") {
  std::vector<RankView> ranks(5, numbered("world", 12));
  ranks[2] = numbered("world", 13);
  const HangVerdict verdict = verdict_of(ranks);
  CHECK(verdict.culprits == std::vector<int>{2});
  CHECK_THAT(verdict.text, Contains("waits for all_reduce #13 of group 'world'"));
  CHECK_THAT(verdict.text, Contains("ranks 0, 1, 3, 4 wait for all_reduce #12 of group 'world'"));
}

TEST_CASE("A rank in no collective is the cause, not those that wait for it elsewhere") {
  std::vector<RankView> ranks(8, in_collective());
  ranks[2] = rank_in(WaitKind::lock);
  ranks[3] = in_collective("recv", 20);
  CHECK(verdict_of(ranks).culprits == std::vector<int>{2});
}

TEST_CASE("Ranks that wait for one that has ended are hung") {
  RankView ended = rank_in(WaitKind::unknown);
  ended.health.activity = Activity::ended;
  ended.health.place = {};
  CHECK(third(ended).level == HangLevel::is_hung);
  CHECK(third(ended).text ==
        "rank 3 on n0 has ended 61 s ago; ranks 0-2 wait for all_reduce since 61 s and are hung");
  // Nobody waits for it.
  CHECK(verdict_of({ended, rank_in(WaitKind::lock)}).level == HangLevel::none);
}

TEST_CASE("There is no verdict before the time, without communication, or with a time-out of 0") {
  std::vector<RankView> ranks(4, in_collective());
  ranks[1] = rank_in(WaitKind::lock);
  CHECK(verdict_of(ranks, 61s).level == HangLevel::is_hung);
  CHECK(verdict_of(ranks, 62s).level == HangLevel::none);
  CHECK(verdict_of(ranks, 0s).level == HangLevel::none);
  ranks[2] = moving();
  CHECK(verdict_of(ranks).level == HangLevel::none);
  CHECK(verdict_of(std::vector<RankView>(4, rank_in(WaitKind::lock))).level == HangLevel::none);
  CHECK(verdict_of({}).level == HangLevel::none);
}

TEST_CASE("Somebody who computes may bring the others on, even if another cause is locked") {
  std::vector<RankView> ranks(4, in_collective());
  ranks[1] = rank_in(WaitKind::lock);
  ranks[2] = busy();
  const HangVerdict verdict = verdict_of(ranks);
  CHECK(verdict.level == HangLevel::may_be);
  CHECK(verdict.culprits == std::vector<int>{1, 2});
}

TEST_CASE("The matter of a verdict leaves out its times, and the line of a rank that computes") {
  std::vector<RankView> ranks(4, in_collective());
  ranks[1] = busy();
  const std::string before = verdict_of(ranks).matter;
  ranks[1].health.place.line = 99;
  ranks[2].since -= 10s;
  CHECK(verdict_of(ranks).matter == before);
  ranks[1] = rank_in(WaitKind::lock);
  const std::string locked = verdict_of(ranks).matter;
  CHECK(locked != before);
  ranks[1].health.place.line = 99;
  CHECK(verdict_of(ranks).matter != locked);
}

TEST_CASE("A job of thousands of ranks has one short line") {
  std::vector<RankView> ranks;
  for (int i = 0; i < 5000; ++i) ranks.push_back(in_collective("op" + std::to_string(i), i));
  const HangVerdict verdict = verdict_of(ranks);
  CHECK(verdict.culprits.size() == 5000);
  CHECK(verdict.text.size() < 1000);
  CHECK_THAT(verdict.text, Contains("4996 more ranks stand elsewhere"));
}

namespace {

/// The ranks of four that are odd, and those that wait, in all_reduce 41.
FlightMismatch in_flight(std::vector<int> odd, std::vector<int> waiting) {
  return {"rank 2 never entered all_reduce 41 of group dp; ranks 0, 1, 3 wait in it", std::move(odd),
          std::move(waiting)};
}

HangVerdict with_flight(std::vector<RankView> ranks, const FlightMismatch& mismatch) {
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].health.rank = static_cast<int>(i);
  return judge_hang(ranks, 60s, kNow, {mismatch});
}

}  // namespace

TEST_CASE("Of ranks that all wait, flight records tell which one the others wait for") {
  // Same call, same line: nothing else tells them apart.
  const RankView waits = in_collective();
  const HangVerdict verdict = with_flight({waits, waits, waits, waits}, in_flight({2}, {0, 1, 3}));
  CHECK(verdict.level == HangLevel::is_hung);
  CHECK(verdict.culprits == std::vector<int>{2});
  CHECK(verdict.text ==
        "rank 2 (train.py:50 in main) is hung: it waits for all_reduce since 61 s; ranks 0, 1, 3 wait for "
        "all_reduce since 61 s; by the flight recorder rank 2 never entered all_reduce 41 of group dp; ranks "
        "0, 1, 3 wait in it");
  CHECK(verdict.matter != with_flight({waits, waits, waits, waits}, in_flight({3}, {0, 1, 2})).matter);
  // They go before the ranks that wait elsewhere than most.
  CHECK(with_flight({waits, waits, waits, in_collective("barrier", 60)}, in_flight({2}, {0, 1})).culprits ==
        std::vector<int>{2});
  // Where none stands out, what the ranks do decides.
  CHECK(with_flight({waits, waits, waits, in_collective("barrier", 60)}, in_flight({}, {0, 1})).culprits ==
        std::vector<int>{3});
  CHECK(with_flight({waits, waits}, in_flight({0, 1}, {})).culprits.empty());
}

TEST_CASE("Who is missing in one group because it waits in another is not the cause") {
  std::vector<RankView> ranks(3, in_collective());
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].health.rank = static_cast<int>(i);
  const FlightMismatch first{"rank 1 never entered all_reduce 5 of group 0", {1}, {0}};
  const FlightMismatch root{"rank 2 never entered all_gather 7 of group 1", {2}, {1}};
  CHECK(judge_hang(ranks, 60s, kNow, {first, root}).culprits == std::vector<int>{2});
  CHECK(judge_hang(ranks, 60s, kNow, {first}).culprits == std::vector<int>{1});
  // In a circle the first is named.
  const FlightMismatch circle{"rank 0 never entered all_gather 7 of group 1", {0}, {1}};
  CHECK(judge_hang(ranks, 60s, kNow, {first, circle}).culprits == std::vector<int>{1});
}

TEST_CASE("A rank that is in no call stays the cause, whatever flight records tell") {
  const RankView waits = in_collective();
  CHECK(with_flight({waits, waits, waits, rank_in(WaitKind::lock)}, in_flight({2}, {0, 1})).culprits ==
        std::vector<int>{3});
  CHECK(with_flight({waits, waits, waits, rank_in(WaitKind::stopped)}, in_flight({2}, {0, 1})).culprits ==
        std::vector<int>{3});
}

TEST_CASE("A rank that seems to compute waits if it is in the collective by its flight record") {
  const std::vector<RankView> spin(4, busy());
  CHECK(verdict_of(spin).level == HangLevel::none);
  const HangVerdict verdict = with_flight(spin, in_flight({2}, {0, 1, 3}));
  CHECK(verdict.level == HangLevel::may_be);
  CHECK(verdict.culprits == std::vector<int>{2});
  // Of ranks that all seem to wait in it the odd one is the cause.
  CHECK(with_flight(spin, in_flight({2}, {0, 1, 2, 3})).culprits == std::vector<int>{2});
  // A lock of its own is no wait for others.
  const RankView locked = rank_in(WaitKind::lock);
  CHECK(with_flight({locked, locked, locked, locked}, in_flight({2}, {0, 1, 3})).level == HangLevel::none);
}

}  // namespace hang_verdict_test
