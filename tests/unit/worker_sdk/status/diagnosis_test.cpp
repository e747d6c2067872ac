// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/status/diagnosis.hpp"

#include "muster/error.hpp"
#include "tests/support/catch.hpp"
#include "worker_sdk/status/describe_wait.hpp"
#include "worker_sdk/status/status_writer.hpp"

#include <string>
#include <vector>

using namespace muster;
using namespace muster::status;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kNow = 1000 * kSecond;

Call call_of(Collective collective, std::uint64_t sequence, std::uint64_t count = 1000) {
  Call call;
  call.collective = collective;
  call.type = DataType::f32;
  call.sequence = sequence;
  call.count = count;
  return call;
}

GroupStatus group_of(GroupState state, const Call& call, int rank, int size, double seconds) {
  GroupStatus group;
  group.name = "world";
  group.name_hash = hash_of(group.name);
  group.rank = rank;
  group.size = size;
  group.state = state;
  group.report_after = std::chrono::seconds(15);
  group.call = call;
  group.completed = state == GroupState::idle ? call.sequence : call.sequence - 1;
  group.entered_ns = kNow - static_cast<std::uint64_t>(seconds * kSecond);
  group.changed_ns = group.entered_ns;
  return group;
}

RankView rank_of(int rank, int size, std::vector<GroupStatus> groups) {
  RankView view;
  view.rank = rank;
  view.world_size = size;
  view.pid = 100 + rank;
  view.process = ProcessState::sleeping;
  view.status.phase = ProcessPhase::active;
  view.status.pid = view.pid;
  view.status.groups = std::move(groups);
  return view;
}

RankView in_call(int rank, int size, const Call& call, double seconds) {
  return rank_of(rank, size, {group_of(GroupState::in_call, call, rank, size, seconds)});
}

RankView idle(int rank, int size, const Call& last, double seconds) {
  return rank_of(rank, size, {group_of(GroupState::idle, last, rank, size, seconds)});
}

std::string text_of(const std::vector<RankView>& ranks) {
  const auto waits = find_waits(ranks, kNow);
  REQUIRE(waits.size() == 1);
  return describe(waits[0], ranks, kNow);
}

}  // namespace

TEST_CASE("the rank that never entered is named, with what it does") {
  const Call twelfth = call_of(Collective::all_reduce, 12, 11'175'000);
  std::vector<RankView> ranks;
  for (int rank = 0; rank < 8; ++rank)
    ranks.push_back(rank == 3 ? idle(3, 8, call_of(Collective::all_reduce, 11), 4.5)
                              : in_call(rank, 8, twelfth, rank == 0 ? 4.2 : 1));
  ranks[3].process = ProcessState::stopped;
  const auto waits = find_waits(ranks, kNow);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].missing == std::vector<int>{3});
  CHECK(waits[0].waiting.size() == 7);
  CHECK(waits[0].unseen == 0);
  CHECK_FALSE(waits[0].diverged());
  CHECK(waits[0].report_after == std::chrono::seconds(15));
  CHECK(describe(waits[0], ranks, kNow) ==
        "rank 3 never entered all_reduce #12 (44.7 MB) of group 'world'; ranks 0-2, 4-7 wait since 4.2 s. "
        "Rank 3 "
        "(process 103) is stopped by a signal or a debugger, in no call; the last was all_reduce #11 (4.0 "
        "kB) of "
        "group 'world', done 4.5 s ago");
}

TEST_CASE("ranks between calls and ranks that have finished a call wait for nobody") {
  const Call last = call_of(Collective::all_reduce, 4);
  CHECK(find_waits({idle(0, 2, last, 1), idle(1, 2, last, 60)}, kNow).empty());
  // The root of a broadcast may be done while another is still in it.
  const Call broadcast = call_of(Collective::broadcast, 5);
  const auto waits = find_waits({idle(0, 2, broadcast, 1), in_call(1, 2, broadcast, 1)}, kNow);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].missing.empty());
  CHECK(waits[0].unseen == 0);
}

TEST_CASE("a rank that has finished a call and left is not missing in it") {
  const Call broadcast = call_of(Collective::broadcast, 5);
  RankView left = idle(0, 2, broadcast, 1);
  left.status.phase = ProcessPhase::finished;
  left.status.groups[0].gone = true;
  CHECK(find_waits({left, in_call(1, 2, broadcast, 1)}, kNow)[0].missing.empty());
  CHECK(find_waits({left, in_call(1, 2, call_of(Collective::barrier, 6), 1)}, kNow)[0].missing ==
        std::vector<int>{0});
  CHECK(activity(left, kNow) == "has ended its world");
}

TEST_CASE("a rank that is stuck in an earlier call is missing in the later one") {
  const std::string text = text_of({in_call(0, 2, call_of(Collective::all_reduce, 6), 20),
                                    in_call(1, 2, call_of(Collective::barrier, 5), 25)});
  CHECK_THAT(text, Contains("rank 1 never entered all_reduce #6"));
  CHECK_THAT(text, Contains("in barrier #5 of group 'world' since 25.0 s"));
}

TEST_CASE("different calls at the same place are both said") {
  const std::vector<RankView> ranks = {in_call(0, 3, call_of(Collective::all_reduce, 6, 10), 20),
                                       in_call(1, 3, call_of(Collective::all_reduce, 6, 20), 20),
                                       in_call(2, 3, call_of(Collective::all_reduce, 6, 10), 20)};
  CHECK(find_waits(ranks, kNow)[0].diverged());
  const std::string text = text_of(ranks);
  CHECK_THAT(text, Contains("make different calls"));
  CHECK_THAT(text, Contains("ranks 0, 2 are in call 6: all_reduce of 10 x f32"));
  CHECK_THAT(text, Contains("rank 1 is in call 6: all_reduce of 20 x f32"));
}

TEST_CASE("a rank that stops in the middle is named though all have entered") {
  std::vector<RankView> ranks = {in_call(0, 2, call_of(Collective::all_reduce, 6), 16),
                                 in_call(1, 2, call_of(Collective::all_reduce, 6), 16)};
  ranks[1].process = ProcessState::stopped;
  CHECK_THAT(text_of(ranks),
             Contains("all ranks are in all_reduce #6") && Contains("Rank 1 (process 101) is stopped"));
}

TEST_CASE("a rank that has not started, or has ended its world, is missing") {
  std::vector<RankView> ranks = {in_call(0, 3, call_of(Collective::barrier, 1), 16), rank_of(1, 3, {}),
                                 rank_of(2, 3, {})};
  ranks[1].status.phase = ProcessPhase::unclaimed;
  ranks[2].status.phase = ProcessPhase::finished;
  const std::string text = text_of(ranks);
  CHECK_THAT(text, Contains("ranks 1, 2 never entered barrier #1 of"));
  CHECK_THAT(text, Contains("Rank 1 (process 101) is sleeping, has not started its world"));
  CHECK_THAT(text, Contains("Rank 2 (process 102) is sleeping, has ended its world"));
}

TEST_CASE("a group that is being made waits for those who do not come") {
  std::vector<RankView> ranks = {rank_of(0, 2, {group_of(GroupState::joining, Call{}, 0, 2, 17)}),
                                 rank_of(1, 2, {})};
  const auto waits = find_waits(ranks, kNow);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].joining);
  CHECK_THAT(describe(waits[0], ranks, kNow),
             Contains("rank 1 never came to the group 'world'; rank 0 waits since 17.0 s"));
  // A part of the world: who is meant is not known, how many are.
  ranks[0] = rank_of(0, 4, {group_of(GroupState::joining, Call{}, 0, 2, 17)});
  ranks[1].world_size = 4;
  CHECK(find_waits(ranks, kNow)[0].missing.empty());
  CHECK(find_waits(ranks, kNow)[0].unseen == 1);
}

TEST_CASE("ranks on other hosts are counted") {
  const std::string text = text_of({in_call(0, 4, call_of(Collective::barrier, 3), 16),
                                    in_call(1, 4, call_of(Collective::barrier, 3), 16)});
  CHECK_THAT(text, Contains("all ranks of this host are in barrier #3") &&
                       Contains("2 ranks cannot be seen from here"));
}

TEST_CASE("a send or receive waits for its partner") {
  Call recv = call_of(Collective::recv, 5);
  recv.root = 1;
  recv.tag = 7;
  const std::string text =
      text_of({in_call(0, 2, recv, 16), idle(1, 2, call_of(Collective::all_reduce, 5), 18)});
  CHECK_THAT(text,
             Contains("rank 0 waits in recv (4.0 kB) of group 'world' from rank 1, tag 7, since 16.0 s"));
}

TEST_CASE("one that failed counts as in the call, for as long as it was in it") {
  GroupStatus failed = group_of(GroupState::failed, call_of(Collective::all_reduce, 6), 0, 2, 10);
  failed.changed_ns = failed.entered_ns + 2 * kSecond;
  failed.gone = true;
  std::vector<RankView> ranks = {rank_of(0, 2, {failed}), idle(1, 2, call_of(Collective::all_reduce, 5), 11)};
  ranks[0].status.phase = ProcessPhase::finished;
  const auto waits = find_waits(ranks, kNow);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].longest == std::chrono::seconds(2));
  CHECK(waits[0].missing == std::vector<int>{1});
  CHECK_THAT(activity(ranks[0], kNow), Contains("failed in all_reduce #6") && Contains("8.0 s ago"));
}

TEST_CASE("times from the future or of a hostile process do no harm") {
  GroupStatus odd =
      group_of(GroupState::in_call, call_of(static_cast<Collective>(200), ~0ULL, ~0ULL), 0, 2, 0);
  odd.entered_ns = ~0ULL;
  odd.name = "";
  std::vector<RankView> ranks = {rank_of(0, 2, {odd}), rank_of(1, 2, {})};
  CHECK(find_waits(ranks, kNow)[0].longest.count() == 0);
  odd.entered_ns = 0;
  ranks[0] = rank_of(0, 2, {odd});
  CHECK(find_waits(ranks, ~0ULL)[0].longest.count() > 0);
  CHECK(text_of(ranks).size() < 500);
}

TEST_CASE("the number of waits is bounded, the longest are kept") {
  std::vector<GroupStatus> groups;
  for (int i = 0; i < 30; ++i) {
    groups.push_back(group_of(GroupState::in_call, call_of(Collective::barrier, 1), 0, 2, i));
    groups.back().name_hash = static_cast<std::uint64_t>(i) + 1;
  }
  const auto waits = find_waits({rank_of(0, 2, groups)}, kNow);
  REQUIRE(waits.size() == kWaitsMax);
  CHECK(waits[0].longest == std::chrono::seconds(29));
}

TEST_CASE("ranks and times are readable") {
  CHECK(name_ranks({3}) == "rank 3");
  CHECK(name_ranks({5, 0, 2, 1}) == "ranks 0-2, 5");
  CHECK(name_ranks({0, 1, 4, 5}) == "ranks 0, 1, 4, 5");
  CHECK(name_ranks({0, 2, 4, 6, 8, 10, 12, 14, 16, 18}) == "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 more");
  CHECK(readable(std::chrono::microseconds(40)) == "40 us");
  CHECK(readable(std::chrono::microseconds(1340)) == "1.3 ms");
  CHECK(readable(std::chrono::milliseconds(350)) == "350 ms");
  CHECK(readable(std::chrono::milliseconds(4230)) == "4.2 s");
}

TEST_CASE("the last calls are one short line each") {
  const RankView view = idle(0, 2, call_of(Collective::all_reduce, 5), 1);
  RecentCall done;
  done.name_hash = hash_of("world");
  done.call = call_of(Collective::all_reduce, 4);
  done.state = CallState::completed;
  done.entered_ns = kNow - 3 * kSecond;
  done.finished_ns = done.entered_ns + 1'300'000;
  RecentCall running = done;
  running.state = CallState::running;
  running.name_hash = 77;
  const auto lines = brief({done, running}, view.status, kNow);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "world: all_reduce #4 (4.0 kB), 1.3 ms");
  CHECK(lines[1] == "(a group that is gone): all_reduce #4 (4.0 kB), running since 3.0 s");
}

TEST_CASE("of the dead the one is named that did not end for another's end") {
  const auto failed = [](int rank, ErrorCode code) {
    RankView view =
        rank_of(rank, 4, {group_of(GroupState::failed, call_of(Collective::barrier, 0), rank, 4, 1)});
    view.status.groups[0].error_code = static_cast<int>(code);
    view.process = ProcessState::gone;
    return view;
  };
  const RankView victim = failed(0, ErrorCode::peer_lost);
  const RankView later_victim = failed(3, ErrorCode::peer_lost);
  const RankView ill = failed(2, ErrorCode::out_of_memory);
  RankView killed = rank_of(1, 4, {group_of(GroupState::joining, call_of(Collective::barrier, 0), 1, 4, 1)});
  killed.process = ProcessState::gone;
  const std::uint64_t world = hash_of("world");
  CHECK(find_culprit({}, world) == nullptr);
  CHECK(find_culprit({&victim, &killed, &later_victim}, world) == &killed);
  CHECK(find_culprit({&victim, &ill}, world) == &ill);
  CHECK(find_culprit({&victim, &later_victim}, world) == &victim);
  CHECK(find_culprit({&victim, &ill}, hash_of("another")) == &victim);
  CHECK(has_lost_another(victim, world));
  CHECK_FALSE(has_lost_another(victim, hash_of("another")));
  CHECK_FALSE(has_lost_another(ill, world));
  CHECK_FALSE(has_lost_another(killed, world));
}
