// SPDX-License-Identifier: Apache-2.0
#include "agent/core/signal_route.hpp"

#include "catch.hpp"

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <utility>
#include <vector>

using namespace muster;
using namespace muster::agent;

namespace {

constexpr pid_t kAgent = 100;
constexpr std::uint64_t kBefore = 10;
constexpr std::uint64_t kNow = 20;
constexpr std::uint64_t kLater = 30;

ProcessStat process(pid_t pid, pid_t parent, pid_t session, std::uint64_t start = kBefore) {
  ProcessStat stat;
  stat.pid = pid;
  stat.parent = parent;
  stat.group = stat.session = session;
  stat.start_time = start;
  return stat;
}

/// What each process waits for; one that is not named waits for no child.
using Waits = std::map<pid_t, ChildWait>;

WaitOf looked_up(const Waits& waits) {
  return [&waits](const ProcessStat& one) {
    const auto found = waits.find(one.pid);
    return found == waits.end() ? ChildWait{} : found->second;
  };
}

/// Of processes that ignore nothing.
std::optional<SignalSets> no_sets(const ProcessStat&) {
  return SignalSets{};
}

using Sent = std::vector<std::pair<pid_t, int>>;

Sent sent(const std::vector<StopRoute::Delivery>& deliveries) {
  Sent all;
  for (const auto& one : deliveries) all.emplace_back(one.to.pid, one.signal);
  std::sort(all.begin(), all.end());
  return all;
}

const ChildWait kAny{ChildWait::Kind::any, 0};

}  // namespace

TEST_CASE("A stop signal goes to the workers, not to their helpers") {
  const Waits waits;
  StopRoute route(kAgent, looked_up(waits), no_sets);
  const auto worker = process(1, kAgent, 1);
  const std::vector<ProcessStat> tree{worker, process(2, 1, 1), process(3, 1, 1)};
  CHECK(sent(route.stop(SIGTERM, {worker}, tree, kNow)) == Sent{{1, SIGTERM}});
  CHECK(route.look({worker}, tree, false).empty());
}

TEST_CASE("A wrapper's child that it waits for gets the signal with it, through several of them") {
  const Waits waits{{1, {ChildWait::Kind::one, 2}}, {2, kAny}};
  StopRoute route(kAgent, looked_up(waits), no_sets);
  const auto worker = process(1, kAgent, 1);
  const std::vector<ProcessStat> tree{worker,           process(2, 1, 1), process(3, 2, 1),
                                      process(4, 2, 1), process(5, 1, 1), process(6, 3, 1)};
  const auto deliveries = route.stop(SIGINT, {worker}, tree, kNow);
  CHECK(sent(deliveries) == Sent{{1, SIGINT}, {2, SIGINT}, {3, SIGINT}, {4, SIGINT}});
  CHECK(deliveries.front().to.pid == 1);  // before its child, whose end would let a script go on
}

TEST_CASE("A wrapper that waits only later passes the signal on then, but not to what it cleans up with") {
  Waits waits;
  StopRoute route(kAgent, looked_up(waits), no_sets);
  const auto worker = process(1, kAgent, 1);
  std::vector<ProcessStat> tree{worker, process(2, 1, 1)};
  CHECK(sent(route.stop(SIGTERM, {worker}, tree, kNow)) == Sent{{1, SIGTERM}});
  waits[1] = kAny;
  tree.push_back(process(3, 1, 1, kLater));
  CHECK(sent(route.look({worker}, tree, false)) == Sent{{2, SIGTERM}});
  CHECK(route.look({worker}, tree, false).empty());
}

TEST_CASE("The children of a process that was told are told when it has ended") {
  const Waits waits;
  StopRoute route(kAgent, looked_up(waits), no_sets);
  const auto first = process(1, kAgent, 1);
  const auto second = process(9, kAgent, 9);
  const std::vector<ProcessStat> tree{first, second, process(2, 1, 1), process(3, 1, 3)};
  route.stop(SIGTERM, {first, second}, tree, kNow);
  // 4 was never seen with its parent, and is known by its session; 5 is nobody's that was told.
  const std::vector<ProcessStat> later{second,
                                       process(2, kAgent, 1),
                                       process(3, kAgent, 3),
                                       process(4, kAgent, 1),
                                       process(5, kAgent, 5),
                                       process(6, 9, 9)};
  CHECK(sent(route.look({second}, later, false)) == Sent{{2, SIGTERM}, {3, SIGTERM}, {4, SIGTERM}});
  CHECK(route.look({second}, later, false).empty());
  const auto at_the_end = route.look({}, {process(2, kAgent, 1), process(5, kAgent, 5)}, true);
  CHECK(sent(at_the_end) == Sent{{5, SIGTERM}});
  CHECK(at_the_end.front().leftover);
}

TEST_CASE("A trainer whose wrapper has ended keeps its helpers until it ends itself") {
  Waits waits{{1, kAny}};
  StopRoute route(kAgent, looked_up(waits), no_sets);
  const auto worker = process(1, kAgent, 1);
  route.stop(SIGINT, {worker}, {worker, process(2, 1, 1), process(3, 2, 1)}, kNow);
  const std::vector<ProcessStat> later{process(2, kAgent, 1), process(3, 2, 1)};
  CHECK(route.look({}, later, true).empty());
  REQUIRE(route.stand_ins(later).size() == 1);
  CHECK(route.stand_ins(later).front().pid == 2);
  CHECK(sent(route.look({}, {process(3, kAgent, 1)}, true)) == Sent{{3, SIGINT}, {3, SIGTERM}});
}

TEST_CASE("Another signal goes the same way; none is sent twice") {
  const Waits waits{{1, kAny}};
  StopRoute route(kAgent, looked_up(waits), no_sets);
  const auto worker = process(1, kAgent, 1);
  const std::vector<ProcessStat> tree{worker, process(2, 1, 1)};
  route.stop(SIGINT, {worker}, tree, kNow);
  CHECK(sent(route.stop(SIGTERM, {worker}, tree, kLater)) == Sent{{1, SIGTERM}, {2, SIGTERM}});
  CHECK(route.stop(SIGTERM, {worker}, tree, kLater).empty());
}

TEST_CASE("Without a stop, what workers leave is told when all have ended, from the top down") {
  const Waits waits;
  StopRoute route(kAgent, looked_up(waits), no_sets);
  const auto worker = process(1, kAgent, 1);
  CHECK(route.look({worker}, {worker, process(2, kAgent, 9)}, false).empty());
  const auto deliveries = route.look({}, {process(2, kAgent, 9), process(3, 2, 9)}, true);
  CHECK(sent(deliveries) == Sent{{2, SIGTERM}});
  CHECK(deliveries.front().leftover);
}

TEST_CASE("Where it cannot be seen what a worker waits for, its group gets the signal") {
  const Waits waits{{1, {ChildWait::Kind::unreadable, 0}}};
  StopRoute route(kAgent, looked_up(waits), no_sets);
  const auto worker = process(1, kAgent, 1);
  const auto deliveries = route.stop(SIGTERM, {worker}, {worker, process(2, 1, 1)}, kNow);
  REQUIRE(sent(deliveries) == Sent{{1, SIGTERM}});
  CHECK(deliveries.front().group);
}

TEST_CASE("Who got it with the group is not told again when the wrapper has ended") {
  const Waits waits{{1, {ChildWait::Kind::unreadable, 0}}};
  StopRoute route(kAgent, looked_up(waits), no_sets);
  const auto worker = process(1, kAgent, 1);
  route.stop(SIGTERM, {worker}, {worker, process(2, 1, 1)}, kNow);
  CHECK(route.look({}, {process(2, kAgent, 1)}, true).empty());
}

TEST_CASE("A program that ignores the signal of its wrapper gets SIGTERM when it is left alone") {
  const Waits waits{{1, kAny}};
  StopRoute route(kAgent, looked_up(waits), [](const ProcessStat&) {
    return SignalSets{1U << (SIGINT - 1), 0};
  });
  const auto worker = process(1, kAgent, 1);
  CHECK(sent(route.stop(SIGINT, {worker}, {worker, process(2, 1, 1)}, kNow)) ==
        Sent{{1, SIGINT}, {2, SIGINT}});
  CHECK(route.look({worker}, {worker, process(2, 1, 1)}, false).empty());
  CHECK(sent(route.look({}, {process(2, kAgent, 1)}, true)) == Sent{{2, SIGTERM}});
}

TEST_CASE("A later signal reaches a program whose wrapper has ended") {
  const Waits waits{{1, kAny}};
  StopRoute route(kAgent, looked_up(waits), no_sets);
  const auto worker = process(1, kAgent, 1);
  route.stop(SIGINT, {worker}, {worker, process(2, 1, 1)}, kNow);
  CHECK(sent(route.stop(SIGTERM, {}, {process(2, kAgent, 1), process(3, 2, 1)}, kLater)) ==
        Sent{{2, SIGTERM}});
}

TEST_CASE("A shell that was left running passes its end on to what it waits for") {
  const Waits waits{{2, {ChildWait::Kind::one, 3}}};
  StopRoute route(kAgent, looked_up(waits), no_sets);
  const auto deliveries = route.look({}, {process(2, kAgent, 9), process(3, 2, 9)}, true);
  CHECK(sent(deliveries) == Sent{{2, SIGTERM}, {3, SIGTERM}});
  CHECK(deliveries.front().leftover);
}

TEST_CASE("A pid that was used again is another process") {
  const Waits waits;
  StopRoute route(kAgent, looked_up(waits), no_sets);
  const auto worker = process(1, kAgent, 1);
  route.stop(SIGTERM, {worker}, {worker}, kNow);
  CHECK(route.told(worker));
  CHECK_FALSE(route.told(process(1, kAgent, 1, kLater)));
}

TEST_CASE("A notice goes to what catches it, found from the top down") {
  const Waits waits{{1, kAny}, {3, {ChildWait::Kind::one, 4}}};
  const auto top = process(1, kAgent, 1);
  const std::vector<ProcessStat> tree{top, process(2, 1, 1), process(3, 1, 1), process(4, 3, 1),
                                      process(5, 3, 1)};
  std::map<pid_t, std::uint64_t> caught;
  const SetsOf sets_of = [&caught](const ProcessStat& one) { return SignalSets{0, caught[one.pid]}; };
  const auto pids = [&] {
    std::vector<pid_t> found;
    for (const ProcessStat& one : notice_route(top, SIGUSR1, tree, looked_up(waits), sets_of))
      found.push_back(one.pid);
    std::sort(found.begin(), found.end());
    return found;
  };
  const std::uint64_t usr1 = 1U << (SIGUSR1 - 1);
  CHECK(pids().empty());
  caught = {{2, usr1}, {4, usr1}, {5, usr1}};
  CHECK(pids() == std::vector<pid_t>{2, 4});
  caught[1] = usr1;
  CHECK(pids() == std::vector<pid_t>{1});
}
