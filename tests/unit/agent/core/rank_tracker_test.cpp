// SPDX-License-Identifier: Apache-2.0
// The life of one worker as its agent follows it, sample by sample.
#include "agent/core/rank_health.hpp"
#include "catch.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace rank_tracker_test {

using namespace muster::agent;
using namespace std::chrono_literals;
using muster::rendezvous::Activity;
using muster::rendezvous::CodePlace;
using muster::rendezvous::RankHealth;
using muster::rendezvous::WaitKind;

namespace {

const CodePlace kAt41{"/home/u/train.py", 41, "load"};
const CodePlace kAt50{"/home/u/train.py", 50, "step"};

/// A worker that is looked at each two seconds.
struct Life {
  WorkerSample sample{};
  RankTracker tracker{3, 7, 10s};
  bool still = false;

  Life() { sample.at = std::chrono::steady_clock::time_point(1000s); }

  std::optional<RankHealth> look(const std::function<void(WorkerSample&)>& change,
                                 const CodePlace& frame = kAt41) {
    sample.at += 2s;
    change(sample);
    still = tracker.add(sample);
    StackSummary stack;
    stack.main = {frame};
    if (still) tracker.judge(stack);
    return tracker.news();
  }

  std::optional<RankHealth> print() {
    return look([](WorkerSample& now) { now.output_bytes += 80; });
  }

  std::optional<RankHealth> wait(SystemCall call = SystemCall::lock, std::uint64_t switches = 0) {
    return look([=](WorkerSample& now) {
      now.call = call;
      now.voluntary_switches += switches;
    });
  }

  std::optional<RankHealth> compute(const CodePlace& frame = kAt41) {
    return look([](WorkerSample& now) { now.cpu += 2s; }, frame);
  }
};

}  // namespace

TEST_CASE("A worker that moves is told to nobody, nor is a short standstill") {
  Life life;
  for (int i = 0; i < 10; ++i) CHECK_FALSE(life.print());
  for (int i = 0; i < 4; ++i) CHECK_FALSE(life.wait());
  CHECK(life.still);
  CHECK_FALSE(life.print());
  CHECK_FALSE(life.still);
  CHECK(life.tracker.health().activity == Activity::moves);
}

TEST_CASE("A look that comes to nothing changes nothing of a rank that sleeps on in a call of others") {
  const CodePlace all_reduce{"/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 3090,
                             "all_reduce"};
  Life life;
  life.sample.state = 'S';
  life.print();
  const auto in_call = [](WorkerSample& now) { now.call = SystemCall::lock; };
  life.look(in_call, all_reduce);
  CHECK(life.tracker.health().in_communication());
  const auto blind = [&](std::uint64_t switches) {
    life.sample.at += 2s;
    life.sample.voluntary_switches += switches;
    REQUIRE(life.tracker.add(life.sample));
    life.tracker.judge({});
    return life.tracker.health();
  };
  CHECK(blind(0).in_communication());
  CHECK(blind(0).operation == "all_reduce");
  // It has woken up since, and what it waits for now is not known.
  CHECK(blind(1).wait == WaitKind::unknown);
  CHECK(blind(0).wait == WaitKind::unknown);
}

TEST_CASE("A standstill is told once, with its length, and that it is over, too") {
  Life life;
  life.print();
  for (int i = 0; i < 4; ++i) CHECK_FALSE(life.wait());
  const auto told = life.wait();
  REQUIRE(told);
  CHECK(told->rank == 3);
  CHECK(told->round == 7);
  CHECK(told->activity == Activity::waits);
  CHECK(told->wait == WaitKind::lock);
  CHECK(told->still == 10s);
  CHECK(told->lasted == 10s);
  CHECK(told->place.line == 41);
  for (int i = 0; i < 30; ++i) CHECK_FALSE(life.wait());
  const auto again = life.print();
  REQUIRE(again);
  CHECK(again->activity == Activity::moves);
  CHECK(again->still == 0s);
  CHECK_FALSE(again->place.known());
  CHECK_FALSE(life.print());
}

TEST_CASE("What changes within a standstill is told, and since when it is so") {
  Life life;
  life.print();
  for (int i = 0; i < 5; ++i) life.compute();
  CHECK(life.tracker.health().activity == Activity::busy);
  const auto waits = life.wait();
  REQUIRE(waits);
  CHECK(waits->activity == Activity::waits);
  CHECK(waits->still == 12s);
  CHECK(waits->lasted == 0s);
}

TEST_CASE("A poll is found out by its first wake-up, however rare") {
  Life life;
  life.print();
  // Going to sleep is a switch, too, and none that counts.
  life.wait(SystemCall::sleep, 1);
  for (int i = 0; i < 10; ++i) life.wait(SystemCall::sleep);
  CHECK_FALSE(life.tracker.health().stirs);
  const auto woken = life.wait(SystemCall::sleep, 1);
  REQUIRE(woken);
  CHECK(woken->stirs);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(life.wait(SystemCall::sleep));
  CHECK(life.tracker.health().stirs);
}

TEST_CASE("The line of a rank that computes is told from time to time only") {
  Life life;
  life.print();
  int told = 0;
  for (int i = 0; i < 50; ++i) told += life.compute(i % 2 == 0 ? kAt41 : kAt50).has_value();
  // Of 100 s the first 10 are not told, and then one line in 10 s at most.
  CHECK(told >= 2);
  CHECK(told <= 10);
}

TEST_CASE("The counters of another process are not compared with those of the one before") {
  Life life;
  life.print();
  for (int i = 0; i < 6; ++i) life.wait();
  life.tracker.change_process();
  const auto moves = life.wait();
  REQUIRE(moves);
  CHECK(moves->activity == Activity::moves);
  CHECK_FALSE(life.wait());
  CHECK(life.still);
}

TEST_CASE("An end with success is told at once, once") {
  Life life;
  life.print();
  life.tracker.end(life.sample.at + 1s);
  const auto told = life.tracker.news();
  REQUIRE(told);
  CHECK(told->activity == Activity::ended);
  CHECK(told->rank == 3);
  CHECK_FALSE(life.tracker.news());
}

TEST_CASE("The first sample tells nothing yet") {
  RankTracker tracker(0, 0, 0s);
  CHECK_FALSE(tracker.news());
  CHECK_FALSE(tracker.add(WorkerSample{}));
  CHECK_FALSE(tracker.news());
  tracker.judge(StackSummary{});
  CHECK(tracker.health().activity == Activity::moves);
}

TEST_CASE("That a wait is for a key is found out later, and the wait has lasted all the time") {
  Life life;
  life.print();
  for (int i = 0; i < 5; ++i) life.wait(SystemCall::poll);
  REQUIRE(life.tracker.health().wait == WaitKind::unknown);
  // The store's answer comes between two looks.
  life.tracker.last().store_key = "never";
  StackSummary stack;
  stack.main = {kAt41};
  life.tracker.judge(stack);
  const auto told = life.tracker.news();
  REQUIRE(told);
  CHECK(told->key == "never");
  CHECK(told->lasted == 10s);
  // Another key is another wait.
  life.look([](WorkerSample& now) { now.store_key = "other"; });
  CHECK(life.tracker.health().lasted == 0s);
}

TEST_CASE("After a pause in which nobody looked a worker counts as having moved") {
  RankTracker tracker(3, 7, 10s, 6s);
  WorkerSample sample;
  sample.at = std::chrono::steady_clock::time_point(1000s);
  tracker.add(sample);
  sample.at += 6s;
  CHECK(tracker.add(sample));
  sample.at += 600s;
  CHECK_FALSE(tracker.add(sample));
  sample.at += 2s;
  CHECK(tracker.add(sample));
  CHECK(tracker.health().still == 2s);
}

TEST_CASE(
    "A worker that launches collectives of NCCL moves, but not when NCCL tells of it for the first time") {
  Life life;
  life.print();
  life.compute();
  life.look([](WorkerSample& now) { now.nccl_launched = 12; });
  CHECK(life.still);
  life.compute();
  CHECK(life.still);
  life.look([](WorkerSample& now) { now.nccl_launched = 13; });
  CHECK_FALSE(life.still);
}

TEST_CASE("Whoever asks between two looks is told times up to now") {
  Life life;
  life.print();
  for (int i = 0; i < 3; ++i) life.wait();
  const auto last = life.sample.at;
  CHECK(life.tracker.health().still == 6s);
  CHECK(life.tracker.health(last + 1500ms).still == 7500ms);
  CHECK(life.tracker.health(last + 1500ms).lasted == 7500ms);
  CHECK(life.tracker.health(last + 1500ms).wait == WaitKind::lock);
  CHECK(RankTracker(3, 7, 10s).health(last).activity == Activity::moves);
}

TEST_CASE("A worker that no signal reaches for 5 s is held by the kernel, whatever it wanted to do") {
  Life life;
  life.print();
  const auto hold = [&life](const char* function) {
    return life.look([function](WorkerSample& now) {
      now.state = 'D';
      now.wait_channel = function;
      now.operation = "all_reduce";
    });
  };
  hold("nfs_wait_bit_killable");
  hold("nfs_wait_bit_killable");
  CHECK(life.tracker.health().held_in.empty());
  CHECK(life.tracker.health().wait == WaitKind::communication);
  hold("nfs_wait_bit_killable");
  hold("nfs_wait_bit_killable");
  const RankHealth held = life.tracker.health();
  CHECK(held.held_in == "nfs_wait_bit_killable");
  CHECK(held.wait == WaitKind::file);
  CHECK_FALSE(held.in_communication());
  CHECK(held.place == kAt41);
  CHECK(held.operation.empty());
  const auto told = hold("rpc_wait_bit_killable");
  REQUIRE(told);
  CHECK(told->held_in == "nfs_wait_bit_killable");  // the first function stays, so that it is told once
  CHECK_FALSE(hold("rpc_wait_bit_killable"));
  life.look([](WorkerSample& now) { now.state = 'S'; });
  CHECK(life.tracker.health().held_in.empty());
  for (int i = 0; i < 4; ++i) hold("");
  CHECK(life.tracker.health().held_in == "an unknown function");
}

TEST_CASE("What a flight recorder does that was asked is no movement, and the worker's own is seen next") {
  std::uint64_t WorkerSample::*const counter =
      GENERATE(&WorkerSample::output_bytes, &WorkerSample::bytes_read, &WorkerSample::bytes_written,
               &WorkerSample::disk_bytes);
  Life life;
  life.print();
  for (int i = 0; i < 5; ++i) life.wait();
  const auto answer = [&life, counter](std::uint64_t bytes, bool worked) {
    return life.look([=](WorkerSample& now) {
      now.*counter += bytes;
      now.recorder_worked = worked;
    });
  };
  CHECK_FALSE(answer(1U << 20U, true));
  CHECK_FALSE(answer(0, false));
  CHECK_FALSE(answer(1U << 16U, true));
  CHECK_FALSE(answer(1U << 16U, true));
  CHECK(life.still);
  CHECK(life.tracker.health().still == 18s);
  // It moves all the time: seen with the first sample that leaves out nothing.
  CHECK_FALSE(answer(1U << 16U, true));
  const auto moves = answer(1U << 16U, false);
  REQUIRE(moves);
  CHECK(moves->activity == Activity::moves);
  // A worker that moves is not asked; what is left of an earlier question is no standstill.
  answer(1U << 16U, true);
  CHECK_FALSE(life.still);
}

TEST_CASE("The processes of a flight recorder move nothing, but a call does while it works") {
  Life life;
  life.print();
  for (int i = 0; i < 5; ++i) life.wait();
  life.look([](WorkerSample& now) {
    now.helpers_cpu += 1s;
    now.recorder_worked = true;
  });
  CHECK(life.still);
  life.wait();
  CHECK(life.still);
  SECTION("of the SDK") {
    life.look([](WorkerSample& now) { ++now.slot_calls; });
  }
  SECTION("that the recorder itself tells") {
    life.look([](WorkerSample& now) { ++now.flight_changes; });
  }
  CHECK_FALSE(life.still);
}

TEST_CASE("The CPU time of a flight recorder makes nobody busy who was not") {
  Life life;
  life.print();
  for (int i = 0; i < 5; ++i) life.wait();
  const auto compute = [&life](std::chrono::milliseconds cpu, bool recorder) {
    return life.look([=](WorkerSample& now) {
      now.call = SystemCall::lock;
      now.cpu += cpu;
      now.recorder_worked = recorder;
    });
  };
  CHECK_FALSE(compute(1s, true));
  CHECK_FALSE(compute(0s, false));
  CHECK_FALSE(life.tracker.health().stirs);
  // One that waits for a GPU seems busy, and so it does meanwhile.
  REQUIRE(compute(1s, false));
  CHECK(life.tracker.health().activity == Activity::busy);
  CHECK_FALSE(compute(2s, true));
  CHECK(life.tracker.health().activity == Activity::busy);
  CHECK_FALSE(compute(1s, false));
  CHECK(life.tracker.health().activity == Activity::busy);
  // The recorder's part does not count later, either.
  CHECK(compute(0s, false));
  CHECK(life.tracker.health().activity == Activity::waits);
}

TEST_CASE(
    "A flight recorder is asked of a standstill that was told, between samples that leave out nothing") {
  Life life;
  CHECK_FALSE(life.tracker.may_ask_recorder());
  life.print();
  CHECK_FALSE(life.tracker.may_ask_recorder());
  for (int i = 0; i < 4; ++i) life.wait();
  CHECK_FALSE(life.tracker.may_ask_recorder());
  life.wait();
  CHECK(life.tracker.may_ask_recorder());
  life.look([](WorkerSample& now) { now.recorder_worked = true; });
  CHECK_FALSE(life.tracker.may_ask_recorder());
  life.look([](WorkerSample& now) { now.recorder_worked = false; });
  CHECK(life.tracker.may_ask_recorder());
  // Another process has counters of its own.
  life.tracker.change_process();
  CHECK_FALSE(life.tracker.may_ask_recorder());
  life.sample.bytes_written = 0;
  life.wait();
  CHECK_FALSE(life.tracker.may_ask_recorder());
}

TEST_CASE("A worker that reads from a disk at each look, or at which nobody has looked, is not held") {
  const auto read_disk = [](WorkerSample& now) {
    now.state = 'D';
    now.disk_bytes += 4096;
  };
  const auto stay = [](WorkerSample& now) { now.state = 'D'; };
  Life life;
  for (int i = 0; i < 10; ++i) life.look(read_disk);
  life.look(stay);
  CHECK(life.still);
  CHECK(life.tracker.health().held_in.empty());
  Life paused;
  paused.tracker = RankTracker(3, 7, 10s, 6s);
  paused.look(stay);
  paused.look([](WorkerSample& now) { now.at += 60s; });
  paused.look(stay);
  CHECK(paused.still);
  CHECK(paused.tracker.health().held_in.empty());
  for (int i = 0; i < 3; ++i) paused.look(stay);
  CHECK_FALSE(paused.tracker.health().held_in.empty());
}

}  // namespace rank_tracker_test
