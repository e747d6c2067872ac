// SPDX-License-Identifier: Apache-2.0
#include "agent/core/call_report.hpp"

#include "tests/support/catch.hpp"
#include "worker_sdk/status/status_writer.hpp"

#include <string>
#include <vector>

using namespace muster;
using namespace muster::agent;
using muster::status::GroupState;
using muster::status::ProcessPhase;
using muster::status::RankView;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kNow = 1000 * kSecond;

RankView rank_in(int rank, GroupState state, std::uint64_t sequence, std::uint64_t seconds) {
  status::GroupStatus group;
  group.name = "world";
  group.name_hash = status::hash_of(group.name);
  group.rank = rank;
  group.size = 2;
  group.state = state;
  group.report_after = std::chrono::seconds(15);
  group.call.collective = Collective::barrier;
  group.call.sequence = sequence;
  group.completed = state == GroupState::idle ? sequence : sequence - 1;
  group.entered_ns = group.changed_ns = kNow - seconds * kSecond;
  RankView view;
  view.rank = rank;
  view.world_size = 2;
  view.process = status::ProcessState::sleeping;
  view.status.phase = ProcessPhase::active;
  view.status.step = 40;
  view.status.groups.push_back(group);
  return view;
}

}  // namespace

TEST_CASE("a wait is due after the time that its group asks for, and said once") {
  WaitReporter reporter(std::nullopt);
  CHECK(reporter.due({rank_in(0, GroupState::in_call, 3, 14), rank_in(1, GroupState::idle, 2, 20)}, kNow)
            .empty());
  const std::vector<RankView> ranks = {rank_in(0, GroupState::in_call, 3, 15),
                                       rank_in(1, GroupState::idle, 2, 20)};
  CHECK(reporter.due(ranks, kNow).size() == 1);
  CHECK(reporter.due(ranks, kNow + kSecond).empty());
  // The next call is another matter.
  CHECK(reporter.due({rank_in(0, GroupState::in_call, 4, 15), rank_in(1, GroupState::idle, 3, 20)}, kNow)
            .size() == 1);
}

TEST_CASE("the job's own time overrides the groups', and 0 means never") {
  const std::vector<RankView> ranks = {rank_in(0, GroupState::in_call, 3, 2),
                                       rank_in(1, GroupState::idle, 2, 2)};
  CHECK(WaitReporter(std::chrono::milliseconds(1900)).due(ranks, kNow).size() == 1);
  CHECK(WaitReporter(std::chrono::milliseconds(2100)).due(ranks, kNow).empty());
  CHECK(WaitReporter(std::chrono::milliseconds(0)).due(ranks, kNow).empty());
  std::vector<RankView> unwanted = {rank_in(0, GroupState::in_call, 3, 100)};
  unwanted[0].status.groups[0].report_after = std::chrono::milliseconds(0);
  CHECK(WaitReporter(std::nullopt).due(unwanted, kNow).empty());
}

TEST_CASE("sends and receives of several ranks at one place are several waits") {
  std::vector<RankView> ranks = {rank_in(0, GroupState::in_call, 3, 20),
                                 rank_in(1, GroupState::in_call, 3, 20)};
  for (RankView& view : ranks) {
    view.status.groups[0].call.collective = Collective::recv;
    view.status.groups[0].call.root = 1 - view.rank;
  }
  CHECK(WaitReporter(std::nullopt).due(ranks, kNow).size() == 2);
}

TEST_CASE("a report says what each rank did and quotes those that matter") {
  status::RecentCall recent;
  recent.name_hash = status::hash_of("world");
  recent.call.collective = Collective::barrier;
  recent.call.sequence = 2;
  recent.state = status::CallState::completed;
  std::vector<RankView> ranks = {rank_in(0, GroupState::in_call, 3, 4), rank_in(1, GroupState::idle, 2, 5)};
  ranks[1].process = status::ProcessState::gone;
  const CallReport report = make_call_report(ranks, {{recent}, {recent}}, -1, kNow);
  REQUIRE(report.lines.size() == 1);
  CHECK_THAT(report.lines[0], Contains("rank 1 never entered barrier #3 of group 'world'") &&
                                  Contains("rank 0 waits since 4.0 s") && Contains("is dead"));
  REQUIRE(report.ranks.size() == 2);
  const WorkerCall& waiting = report.ranks.at(0);
  CHECK(waiting.state == "in_call");
  CHECK(waiting.group == "world");
  CHECK(waiting.name == "barrier");
  CHECK(waiting.sequence == 3);
  CHECK(waiting.completed == 2);
  CHECK(waiting.for_ms == 4000);
  CHECK(waiting.step == 40);
  CHECK(waiting.process == "sleeping");
  CHECK(waiting.recent.empty());
  CHECK(report.ranks.at(1).state == "idle");
  REQUIRE(report.ranks.at(1).recent.size() == 1);
  CHECK_THAT(report.ranks.at(1).recent[0], Contains("world: barrier #2"));
  // The one that failed is quoted, whoever waits.
  CHECK(make_call_report(ranks, {{recent}, {recent}}, 0, kNow).ranks.at(0).recent.size() == 1);
}

TEST_CASE("programs without the SDK have no such report") {
  std::vector<RankView> ranks(2);
  CHECK(make_call_report(ranks, {{}, {}}, 0, kNow).ranks.empty());
  CHECK(make_call_report({}, {}, -1, kNow).lines.empty());
  ranks[1].rank = 1;
  ranks[1].pid = 77;
  ranks[1].process = status::ProcessState::stopped;
  CHECK(make_call_report(ranks, {{}, {}}, 0, kNow).lines ==
        std::vector<std::string>{"rank 1 (process 77) is stopped by a signal or a debugger"});
}

TEST_CASE("a stopped rank is named though nobody waits for it") {
  std::vector<RankView> ranks = {rank_in(0, GroupState::idle, 3, 4), rank_in(1, GroupState::idle, 3, 4)};
  ranks[1].process = status::ProcessState::stopped;
  const CallReport report = make_call_report(ranks, {{}, {}}, -1, kNow);
  REQUIRE(report.lines.size() == 1);
  CHECK_THAT(report.lines[0],
             Contains("rank 1") && Contains("is stopped") && Contains("the last was barrier #3"));
}
