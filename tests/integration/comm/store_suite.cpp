// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/comm/store_suite.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/support/error_of.hpp"
#include "worker_sdk/store/prefix_store.hpp"
#include "worker_sdk/store/tcp_store.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace muster::test {
namespace {

using std::chrono::milliseconds;

ErrorCode deadline_of(StoreClient& store, const std::vector<std::string>& keys) {
  try {
    store.wait(keys, milliseconds(50));
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("'" + keys.back() + "'") != std::string::npos);
    return error.code();
  }
  return ErrorCode::invalid_argument;
}

void exercise_values(StoreClient& store) {
  const std::int64_t keys = store.num_keys();
  store.set("name", "value");
  CHECK(store.get("name") == "value");
  store.set("name", std::string("\0binary\n", 8));
  CHECK(store.get("name") == std::string("\0binary\n", 8));
  store.set("", "an empty key");
  CHECK(store.get("") == "an empty key");
  CHECK(store.num_keys() == keys + 2);
  CHECK(store.delete_key(""));
  CHECK_FALSE(store.delete_key("never set"));
  CHECK(store.num_keys() == keys + 1);
  const std::string large(8 << 20, 'x');
  store.set("large", large.substr(1));
  CHECK(store.get("large") == large.substr(1));
}

void exercise_changes(StoreClient& store) {
  CHECK(store.add("counter", 5) == 5);
  CHECK(store.add("counter", -7) == -2);
  CHECK(store.get("counter") == "-2");
  CHECK(store.compare_set("token", "", "mine") == "mine");
  CHECK(store.compare_set("token", "other", "theirs") == "mine");
  CHECK(store.compare_set("token", "mine", "ours") == "ours");
  CHECK(store.compare_set("absent", "expected", "desired") == "expected");
  CHECK_FALSE(store.check({"absent"}));
  store.append("log", "a");
  store.append("log", "b");
  CHECK(store.get("log") == "ab");
}

void exercise_waits(StoreClient& store) {
  CHECK(store.check({"counter", "log"}));
  CHECK_FALSE(store.check({"counter", "missing"}));
  store.wait({"counter", "log"});
  for (int i = 0; i < 3; ++i) {
    CHECK(deadline_of(store, {"counter", "missing"}) == ErrorCode::deadline);
    CHECK(store.add("after", 1) == i + 1);
  }
  const auto other = store.clone();
  std::thread late([&] { other->set("late", "came"); });
  CHECK(store.get("late") == "came");
  late.join();
}

void exercise_many(StoreClient& store) {
  store.multi_set({{"many/a", "1"}, {"many/b", std::string("\0x", 2)}, {"many/c", ""}});
  CHECK(store.multi_get({"many/c", "many/a", "many/b"}) ==
        std::vector<std::string>{"", "1", std::string("\0x", 2)});
  CHECK(store.multi_get({}).empty());
  store.multi_set({});
  CHECK(store.get("many/a", milliseconds(30'000)) == "1");
  CHECK_THROWS_AS(store.get("never set", milliseconds(20)), Error);
  PrefixStore below(store, "many/");
  CHECK(below.get("a") == "1");
  below.set("d", "4");
  CHECK(store.get("many/d") == "4");
  CHECK(below.clone()->get("d") == "4");
  CHECK(below.delete_key("d"));
  CHECK_FALSE(store.check({"many/d"}));
}

void exercise_listing(StoreClient& store) {
  const auto names = store.list_keys();
  CHECK(static_cast<std::int64_t>(names.size()) == store.num_keys());
  CHECK(std::count(names.begin(), names.end(), "many/b") == 1);
  auto below = PrefixStore(store, "many/").list_keys();
  std::sort(below.begin(), below.end());
  CHECK(below == std::vector<std::string>{"a", "b", "c"});
}

void exercise_queues(StoreClient& store) {
  CHECK(store.queue_len("queue") == 0);
  store.queue_push("queue", "first");
  store.queue_push("queue", std::string("\0second", 7));
  CHECK(store.queue_len("queue") == 2);
  CHECK(store.check({"queue"}));
  CHECK(store.queue_pop("queue", milliseconds(30'000)) == "first");
  CHECK(store.queue_pop("queue", milliseconds(30'000)) == std::string("\0second", 7));
  CHECK_THROWS_AS(store.queue_pop("queue", milliseconds(20)), Error);
  // Every item goes to one of those that wait.
  std::atomic<int> sum = 0;
  std::vector<std::thread> takers;
  for (int i = 0; i < 3; ++i)
    takers.emplace_back([&sum, own = store.clone()] {
      for (int item = 0; item < 10; ++item)
        sum += std::stoi(own->queue_pop("work", std::chrono::seconds(30)));
    });
  for (int item = 1; item <= 30; ++item) store.queue_push("work", std::to_string(item));
  for (std::thread& taker : takers) taker.join();
  CHECK(sum == 30 * 31 / 2);
}

/// A cancel and the answer may cross on the wire: whichever comes first, the connection stays in step.
void exercise_crossing(StoreClient& store) {
  const auto other = store.clone();
  for (int i = 0; i < 40; ++i) {
    const std::string key = "crossing " + std::to_string(i);
    std::thread setter([&] { other->set(key, "x"); });
    error_of([&] { store.wait({key}, milliseconds(i % 2)); }, ErrorCode::deadline);
    setter.join();
    CHECK(store.get(key) == "x");
  }
}

}  // namespace

void exercise_store(StoreClient& store) {
  exercise_values(store);
  exercise_changes(store);
  exercise_waits(store);
  exercise_crossing(store);
  exercise_many(store);
  exercise_listing(store);
  exercise_queues(store);
  // Last, as a server ends the connection.
  store.set("text", "abc");
  CHECK_THAT(error_of([&] { store.add("text", 1); }, ErrorCode::store), Contains("is no number"));
}

void exercise_store(int port) {
  exercise_store(*connect_store("localhost", port));
}

}  // namespace muster::test
