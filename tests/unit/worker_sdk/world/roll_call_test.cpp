// SPDX-License-Identifier: Apache-2.0
// The roll and the barriers over a store inside the test, ranks as threads.
#include "worker_sdk/world/roll_call.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/support/error_of.hpp"
#include "worker_sdk/store/prefix_store.hpp"
#include "worker_sdk/world/named_barrier.hpp"

#include <cstdlib>
#include <functional>
#include <latch>
#include <optional>
#include <thread>

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A process that never was: its liveness cannot be told, as on another host.
ProcessIdentity process(int pid, const std::string& host = "elsewhere") {
  return {host, "another-boot", 1, pid, 1};
}

struct Outcome {
  std::optional<Roll> roll;
  std::optional<ErrorCode> code;
  std::string text;
};

struct Caller {
  int rank;
  int size;
  ProcessIdentity self;
  milliseconds limit = seconds(30);
};

Outcome call(StoreClient& store, const Caller& caller) {
  RollCallOptions options;
  options.rank = caller.rank;
  options.size = caller.size;
  options.prefix = "job/";
  options.limit = caller.limit;
  options.deadline = std::chrono::steady_clock::now() + caller.limit;
  try {
    return {call_roll(store, caller.self, options), std::nullopt, ""};
  } catch (const Error& error) {
    return {std::nullopt, error.code(), error.what()};
  }
}

std::vector<Outcome> call_all(StoreClient& store, const std::vector<Caller>& callers) {
  std::vector<Outcome> outcomes(callers.size());
  std::vector<std::thread> threads;
  std::latch all_run(static_cast<std::ptrdiff_t>(callers.size()));
  for (std::size_t i = 0; i < callers.size(); ++i)
    threads.emplace_back([&, i, own = store.clone()] {
      all_run.arrive_and_wait();
      outcomes[i] = call(*own, callers[i]);
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

TEST_CASE("all ranks learn who is there, below a prefix of their own") {
  const auto store = make_local_store();
  const auto outcomes = call_all(*store, {{0, 3, process(10)}, {1, 3, process(11)}, {2, 3, process(12)}});
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.text);
    REQUIRE(outcome.roll);
    CHECK(outcome.roll->prefix == outcomes[0].roll->prefix);
    REQUIRE(outcome.roll->members.size() == 3);
    for (int rank = 0; rank < 3; ++rank)
      CHECK(outcome.roll->members[static_cast<std::size_t>(rank)] == process(10 + rank));
  }
}

TEST_CASE("worlds over one store, at once or one after another, have prefixes of their own") {
  const auto store = make_local_store();
  const auto prefix_of = [&](const ProcessIdentity& a, const ProcessIdentity& b) {
    const auto outcomes = call_all(*store, {{0, 2, a}, {1, 2, b}});
    INFO(outcomes[0].text + outcomes[1].text);
    REQUIRE(outcomes[0].roll);
    REQUIRE(outcomes[1].roll);
    CHECK(outcomes[0].roll->prefix == outcomes[1].roll->prefix);
    return outcomes[0].roll->prefix;
  };
  // The same processes make a second world while the first lives.
  const std::string first = prefix_of(process(1), process(2));
  const std::string second = prefix_of(process(1), process(2));
  CHECK(first != second);
  // Others may have the ranks only once those have left.
  for (const std::string& prefix : {first, second})
    for (int rank = 0; rank < 2; ++rank) leave_roll(*store, {prefix, {process(1), process(2)}}, rank);
  CHECK(prefix_of(process(3), process(4)) != second);
}

TEST_CASE("a rank whose process has died can be had again") {
  const auto store = make_local_store();
  ProcessIdentity dead = ProcessIdentity::here();
  dead.started += 1;  // the pid lives, but that is another process
  CHECK(liveness_of(dead) == Liveness::dead);
  CHECK(liveness_of(ProcessIdentity::here()) == Liveness::alive);
  CHECK(liveness_of(process(1)) == Liveness::unknown);
  CHECK(call(*store, {0, 1, dead}).roll);
  CHECK(call(*store, {0, 1, ProcessIdentity::here()}).roll);
}

TEST_CASE("the host has the name that MUSTER_HOST_NAME gives it") {
  setenv("MUSTER_HOST_NAME", "node 7", 1);
  const ProcessIdentity self = ProcessIdentity::here();
  unsetenv("MUSTER_HOST_NAME");
  CHECK(self.host == "node_7");
  CHECK(ProcessIdentity::from_text(self.to_text()) == self);
  CHECK(ProcessIdentity::here().host != "node_7");
}

TEST_CASE("a rank that is taken twice is told to all, with both processes") {
  const auto store = make_local_store();
  for (const Outcome& outcome :
       call_all(*store, {{0, 3, process(10)}, {1, 3, process(11, "left")}, {1, 3, process(12, "right")}})) {
    CHECK(outcome.code == ErrorCode::invalid_argument);
    CHECK_THAT(outcome.text, Contains("rank 1 is taken twice") && Contains("process 11 on host left") &&
                                 Contains("process 12 on host right") && Contains("set MUSTER_RUN_ID"));
  }
}

TEST_CASE("two opinions about the number of ranks are told to all") {
  const auto store = make_local_store();
  for (const Outcome& outcome : call_all(*store, {{0, 2, process(10)}, {1, 4, process(11)}})) {
    CHECK(outcome.code == ErrorCode::mismatch);
    CHECK_THAT(outcome.text, Contains("2 ranks says rank 0") && Contains("4 ranks says rank 1"));
  }
}

TEST_CASE("the ranks that do not come are named, and all may try again") {
  const auto store = make_local_store();
  for (const Outcome& outcome :
       call_all(*store, {{0, 4, process(10), seconds(1)}, {2, 4, process(12), seconds(1)}})) {
    CHECK(outcome.code == ErrorCode::deadline);
    CHECK_THAT(outcome.text, Contains("missing: rank 1, rank 3"));
  }
  for (const Outcome& outcome : call_all(
           *store, {{0, 4, process(10)}, {1, 4, process(11)}, {2, 4, process(12)}, {3, 4, process(13)}})) {
    INFO(outcome.text);
    CHECK(outcome.roll);
  }
}

TEST_CASE("a rank that comes after two opinions were found learns of them at once") {
  const auto store = make_local_store();
  call_all(*store, {{0, 3, process(10)}, {1, 4, process(11)}});
  CHECK(call(*store, {2, 3, process(12)}).code == ErrorCode::mismatch);
}

TEST_CASE("a barrier names the ranks that are missing, and can be waited for again") {
  const auto store = make_local_store();
  const std::vector<ProcessIdentity> members{process(1), process(2), process(3)};
  NamedBarrier zero(0, members, false);
  NamedBarrier one(1, members, false);
  NamedBarrier two(2, members, false);
  CHECK_THAT(
      test::error_of([&] { one.wait(*store, "epoch", milliseconds(20)); }, ErrorCode::deadline),
      Contains("'epoch'") && Contains("rank 0 (process 1 on host") && Contains("rank 2 (process 3 on host"));
  const auto client = [&] { return store->clone(); };
  for (int round = 0; round < 5; ++round) {
    std::thread first([&, own = client()] { zero.wait(*own, "epoch", seconds(30)); });
    std::thread last([&, own = client()] { two.wait(*own, "epoch", seconds(30)); });
    one.wait(*store, "epoch", seconds(30));
    first.join();
    last.join();
  }
  CHECK(store->num_keys() == 0);
}

TEST_CASE("barriers of many names leave no keys, even where one was left early") {
  const auto store = make_local_store();
  const std::vector<ProcessIdentity> members{process(1), process(2)};
  NamedBarrier zero(0, members, false);
  NamedBarrier one(1, members, false);
  CHECK_THROWS_AS(one.wait(*store, "early", milliseconds(1)), Error);
  std::thread other([&, own = store->clone()] {
    zero.wait(*own, "early", seconds(30));
    for (int step = 0; step < 100; ++step) zero.wait(*own, "step " + std::to_string(step), seconds(30));
  });
  for (int step = 0; step < 100; ++step) one.wait(*store, "step " + std::to_string(step), seconds(30));
  other.join();
  one.wait(*store, "early", milliseconds(0));
  CHECK(store->num_keys() == 0);
}

}  // namespace
}  // namespace muster
