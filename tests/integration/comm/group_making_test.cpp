// SPDX-License-Identifier: Apache-2.0
// Groups of one world that threads make at the same time. The ranks are threads of this process, too.
#include "catch.hpp"
#include "tests/integration/comm/rank_processes.hpp"
#include "tests/support/error_of.hpp"
#include "worker_sdk/comm/join_alarm.hpp"
#include "worker_sdk/comm/select/select.hpp"
#include "worker_sdk/comm/store_lease.hpp"
#include "worker_sdk/store/tcp_store.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace muster {
namespace {

constexpr auto kLong = std::chrono::seconds(30);

/// Makes both groups, each on a thread; `second` when `first` is being made here and `second` by the other
/// rank.
void make_two(int rank, int port, const std::string& first, const std::string& second) {
  const auto store = connect_store("127.0.0.1", port);
  const auto keys = store->clone();
  SelectOptions options;
  options.backend = "shm";
  options.rank = rank;
  options.size = 2;
  options.host = "here";
  options.group.timeout = kLong;
  const auto factory = make_group_factory(store.get(), options);
  const auto make = [&](const std::string& name) {
    GroupPlan plan{rank, 2, {0, 1}, options.group};
    plan.options.name = name;
    auto backend = factory->make(plan);
    ProcessGroup(std::move(backend), std::move(plan), factory).barrier();
  };
  std::string failure;
  std::thread other([&] { failure = test::error_of([&] { make(first); }); });
  const std::string failure_here = test::error_of([&] {
    keys->wait({"muster/shm/0/" + first + "/1/joined/" + std::to_string(rank),
                "muster/shm/0/" + second + "/1/joined/" + std::to_string(1 - rank)},
               kLong);
    make(second);
  });
  other.join();
  if (!failure.empty() || !failure_here.empty())
    throw Error(ErrorCode::state, first + ": " + failure + "; " + second + ": " + failure_here);
}

TEST_CASE("two groups are made at the same time, begun in another order on each rank") {
  const test::StoreProcess server;
  std::string failures[2];
  std::thread other([&] { failures[1] = test::error_of([&] { make_two(1, server.port(), "b", "a"); }); });
  failures[0] = test::error_of([&] { make_two(0, server.port(), "a", "b"); });
  other.join();
  CHECK(failures[0] == "");
  CHECK(failures[1] == "");
}

/// What a thread that needs a connection of its own to make a group is told, and after how long.
struct Refusal {
  std::string text;
  std::chrono::steady_clock::duration after{};
};

Refusal refusal_of_second_connection(
    const GroupPlan& plan, const std::function<void()>& meanwhile = [] {}) {
  const test::StoreProcess server;
  const auto store = connect_store("127.0.0.1", server.port());
  server.stop();
  std::mutex in_use;
  const std::lock_guard other_thread_makes_a_group(in_use);
  Refusal refusal;
  const auto begin = std::chrono::steady_clock::now();
  std::thread second([&] { refusal.text = test::error_of([&] { StoreLease(store.get(), in_use, plan); }); });
  meanwhile();
  second.join();
  refusal.after = std::chrono::steady_clock::now() - begin;
  return refusal;
}

TEST_CASE("a group's own connection to a store that stands still keeps the time of the making") {
  GroupPlan plan{0, 2, {0, 1}, {}};
  plan.options.join_timeout = std::chrono::milliseconds(200);
  const Refusal refusal = refusal_of_second_connection(plan);
  CHECK(refusal.text.starts_with("no connection to the store at 127.0.0.1:"));
  CHECK(refusal.after < std::chrono::seconds(10));
}

TEST_CASE("a rank that dies ends the making of a group's own connection") {
  GroupPlan plan{0, 2, {0, 1}, {}};
  plan.options.join_timeout = kLong;
  plan.alarm = std::make_shared<JoinAlarm>();
  const Refusal refusal =
      refusal_of_second_connection(plan, [&] { plan.alarm->ring(ErrorCode::aborted, "rank 1 has died"); });
  CHECK(refusal.text == "rank 1 has died");
  CHECK(refusal.after < kLong / 3);
}

}  // namespace
}  // namespace muster
