// SPDX-License-Identifier: Apache-2.0
// Groups of one world that threads make at the same time. The ranks are threads of this process, too.
#include "catch.hpp"
#include "tests/integration/comm/rank_processes.hpp"
#include "worker_sdk/comm/select/select.hpp"

#include <functional>
#include <thread>

namespace muster {
namespace {

constexpr auto kLong = std::chrono::seconds(30);

/// What `body` throws; "" for nothing.
std::string text_of_failure(const std::function<void()>& body) {
  try {
    body();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

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
  std::thread other([&] { failure = text_of_failure([&] { make(first); }); });
  const std::string failure_here = text_of_failure([&] {
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
  std::thread other([&] { failures[1] = text_of_failure([&] { make_two(1, server.port(), "b", "a"); }); });
  failures[0] = text_of_failure([&] { make_two(0, server.port(), "a", "b"); });
  other.join();
  CHECK(failures[0] == "");
  CHECK(failures[1] == "");
}

}  // namespace
}  // namespace muster
