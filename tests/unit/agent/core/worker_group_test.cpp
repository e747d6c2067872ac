// SPDX-License-Identifier: Apache-2.0
#include "agent/core/worker_group.hpp"

#include "catch.hpp"

#include <csignal>

namespace worker_group_test {

using namespace muster::agent;
using namespace std::chrono_literals;

namespace {

const TimePoint kStart{};
const ExitStatus kOk{};
const ExitStatus kFailed{ExitStatus::Kind::exited, 3};

ExitStatus killed_by(int signal) {
  return {ExitStatus::Kind::signaled, signal};
}

}  // namespace

TEST_CASE("A round succeeds when every worker does") {
  WorkerGroup group(2, 30s);
  GroupActions actions = group.exited(1, kOk, kStart);
  CHECK(actions.signal_workers == 0);
  CHECK_FALSE(actions.end_leftovers);
  actions = group.exited(0, kOk, kStart);
  CHECK(actions.end_leftovers);
  CHECK_FALSE(group.over());
  CHECK(group.descendants_gone().over);
  CHECK(group.outcome() == RoundOutcome::succeeded);
  CHECK(group.arrival(1) == 1);
  CHECK(group.arrival(0) == 2);
}

TEST_CASE("The first failure stops the siblings, and only it is the cause") {
  WorkerGroup group(3, 30s);
  const GroupActions actions = group.exited(2, kFailed, kStart);
  CHECK(actions.signal_workers == SIGTERM);
  CHECK(actions.wake_at == kStart + 30s);
  group.exited(0, killed_by(SIGTERM), kStart + 1ms);
  CHECK(group.exited(1, kFailed, kStart + 2ms).end_leftovers);
  group.descendants_gone();
  CHECK(group.outcome() == RoundOutcome::failed);
  CHECK(group.worker_outcome(2) == WorkerOutcome::failed_by_itself);
  CHECK(group.worker_outcome(0) == WorkerOutcome::stopped_by_us);
  // It had been told to stop, and its code is its own.
  CHECK(group.worker_outcome(1) == WorkerOutcome::stopped_by_us);
  CHECK(group.signal_before_end(2) == 0);
  CHECK(group.signal_before_end(1) == SIGTERM);
}

TEST_CASE("Of workers that ended together none was told to stop because of another") {
  WorkerGroup group(3, 30s);
  const GroupActions actions = group.exited({{2, killed_by(SIGKILL)}, {0, kFailed}}, kStart);
  CHECK(actions.signal_workers == SIGTERM);
  CHECK(actions.wake_at == kStart + 30s);
  group.exited(1, killed_by(SIGTERM), kStart + 1ms);
  CHECK(group.exited({{2, kFailed}}, kStart + 2ms).wake_at == std::nullopt);
  group.descendants_gone();
  CHECK(group.worker_outcome(2) == WorkerOutcome::failed_by_itself);
  CHECK(group.worker_outcome(0) == WorkerOutcome::failed_by_itself);
  CHECK(group.worker_outcome(1) == WorkerOutcome::stopped_by_us);
  CHECK(group.arrival(2) == 1);
  CHECK(group.arrival(0) == 2);
  CHECK(group.signal_before_end(0) == 0);
}

TEST_CASE("A worker that crashes after the stop signal has failed by itself all the same") {
  WorkerGroup group(2, 30s);
  group.stop(SIGHUP, kStart);
  group.exited(0, killed_by(SIGSEGV), kStart + 1ms);
  group.exited(1, killed_by(SIGHUP), kStart + 1ms);
  group.descendants_gone();
  CHECK(group.worker_outcome(0) == WorkerOutcome::failed_by_itself);
  CHECK(group.worker_outcome(1) == WorkerOutcome::stopped_by_us);
  CHECK(group.signal_before_end(0) == SIGHUP);
}

TEST_CASE("KILL follows when the grace period ends: workers, then their helpers, until nothing is left") {
  WorkerGroup group(2, 10s);
  group.exited(0, kFailed, kStart);
  CHECK(group.kill_at() == kStart + 10s);
  CHECK_FALSE(group.tick(kStart + 9999ms).kill_workers);
  CHECK(group.stopping());
  const GroupActions first = group.tick(kStart + 10s);
  CHECK(first.kill_workers);
  CHECK_FALSE(first.kill_all);
  CHECK_FALSE(group.stopping());
  CHECK(first.wake_at == kStart + 10s + WorkerGroup::kHelperTime);
  const GroupActions early = group.tick(kStart + 10s + WorkerGroup::kHelperTime - 1ms);
  CHECK_FALSE(early.kill_all);
  CHECK(early.wake_at == first.wake_at);
  const GroupActions actions = group.tick(*first.wake_at);
  CHECK(actions.kill_all);
  CHECK(actions.wake_at == *first.wake_at + WorkerGroup::kKillRepeat);
  CHECK(group.tick(*actions.wake_at).kill_all);
  group.exited(1, killed_by(SIGKILL), kStart + 10s);
  CHECK(group.descendants_gone().over);
  CHECK(group.worker_outcome(1) == WorkerOutcome::stopped_by_us);
  CHECK_FALSE(group.unkillable());
}

TEST_CASE("An order passes its own signal on and is told apart from a failure") {
  WorkerGroup group(1, 5s);
  CHECK(group.stop(SIGINT, kStart).signal_workers == SIGINT);
  group.exited(0, ExitStatus{ExitStatus::Kind::exited, 130}, kStart + 1s);
  group.descendants_gone();
  CHECK(group.outcome() == RoundOutcome::stopped);
  CHECK(group.worker_outcome(0) == WorkerOutcome::stopped_by_us);
}

TEST_CASE("A second order neither lengthens the grace period nor is lost") {
  WorkerGroup group(1, 5s);
  group.stop(SIGINT, kStart);
  const GroupActions actions = group.stop(SIGTERM, kStart + 3s);
  CHECK(actions.signal_workers == SIGTERM);
  CHECK(actions.wake_at == kStart + 5s);
  CHECK(group.kill_now(kStart + 4s).kill_workers);
}

TEST_CASE("A worker that ends by a second order ended by us, and after that signal") {
  WorkerGroup group(3, 5s);
  group.stop(SIGHUP, kStart);
  group.exited(0, kFailed, kStart);
  CHECK(group.stop(SIGQUIT, kStart).signal_workers == SIGQUIT);
  CHECK(group.stop(SIGHUP, kStart).signal_workers == 0);
  group.exited(1, killed_by(SIGQUIT), kStart);
  group.exited(2, killed_by(SIGSEGV), kStart);
  CHECK(group.signal_before_end(0) == SIGHUP);
  CHECK(group.signal_before_end(1) == SIGQUIT);
  CHECK(group.worker_outcome(1) == WorkerOutcome::stopped_by_us);
  CHECK(group.worker_outcome(2) == WorkerOutcome::failed_by_itself);
}

TEST_CASE("Leftovers of workers are part of the round") {
  WorkerGroup group(1, 5s);
  const GroupActions actions = group.exited(0, kOk, kStart);
  CHECK(actions.end_leftovers);
  CHECK(actions.wake_at == kStart + 5s);
  CHECK(group.tick(kStart + 5s).kill_workers);
  group.descendants_gone();
  CHECK(group.outcome() == RoundOutcome::succeeded);
}

TEST_CASE("Leftovers have no time for themselves once no worker is left that they could clean up after") {
  WorkerGroup group(1, 5s);
  group.exited(0, kOk, kStart);
  CHECK(group.tick(kStart + 5s).kill_workers);
  const GroupActions actions = group.no_worker_killed(kStart + 5s);
  CHECK(actions.kill_all);
  CHECK(actions.wake_at == kStart + 5s + WorkerGroup::kKillRepeat);
}

TEST_CASE("Leftovers share the grace period of the stop that went before") {
  WorkerGroup group(2, 5s);
  group.exited(0, kFailed, kStart);
  CHECK(group.exited(1, killed_by(SIGTERM), kStart + 4s).wake_at == kStart + 5s);
}

TEST_CASE("A process that survives KILL does not hold the agent for ever") {
  WorkerGroup group(1, 0s);
  group.kill_now(kStart);
  CHECK_FALSE(group.tick(kStart + WorkerGroup::kUnkillableAfter - 1ms).over);
  CHECK(group.tick(kStart + WorkerGroup::kUnkillableAfter).over);
  CHECK(group.unkillable());
}

TEST_CASE("A program that cannot be executed fails the round") {
  WorkerGroup group(2, 5s);
  CHECK(group.not_started(0, ExitStatus{ExitStatus::Kind::exited, 127}, kStart).signal_workers == SIGTERM);
  CHECK(group.worker_outcome(0) == WorkerOutcome::not_started);
}

TEST_CASE("An order that comes when all had succeeded changes nothing") {
  WorkerGroup group(1, 5s);
  group.exited(0, kOk, kStart);
  group.stop(SIGTERM, kStart + 1ms);
  group.descendants_gone();
  CHECK(group.outcome() == RoundOutcome::succeeded);
}

TEST_CASE("A stop may have a grace period of its own, which lengthens no other") {
  WorkerGroup longer(1, 30s);
  CHECK(longer.stop(SIGTERM, kStart, 90s).wake_at == kStart + 90s);
  CHECK(longer.kill_at() == kStart + 90s);
  CHECK_FALSE(longer.tick(kStart + 89s).kill_workers);
  // Another one makes it shorter, and then no longer again.
  CHECK(longer.stop(SIGINT, kStart + 1s, 5s).wake_at == kStart + 6s);
  CHECK(longer.stop(SIGINT, kStart + 2s, 60s).wake_at == kStart + 6s);
  CHECK(longer.tick(kStart + 6s).kill_workers);
  // The end of the round may come before the order that has caused it.
  WorkerGroup overtaken(1, 1s);
  overtaken.stop(SIGTERM, kStart);
  CHECK(overtaken.stop(SIGTERM, kStart + 500ms, 20s).wake_at == kStart + 20'500ms);
  WorkerGroup none(1, 30s);
  none.stop(SIGTERM, kStart, 0s);
  CHECK(none.tick(kStart).kill_workers);
}

}  // namespace worker_group_test
