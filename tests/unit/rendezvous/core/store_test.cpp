// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/store.hpp"

#include "catch.hpp"

#include <limits>
#include <memory>
#include <string>
#include <vector>

using namespace muster::rendezvous;

namespace {

class Sleeper final : public Waiter {
 public:
  void wait_over() override { ++woken; }

  int woken = 0;
};

std::string value_of(const Store& store, std::string_view key) {
  const std::string* value = store.find(key);
  return value == nullptr ? "(missing)" : *value;
}

StoreStatus wait(Store& store, Waiter& waiter, std::vector<std::string_view> keys) {
  return store.wait(waiter, keys);
}

}  // namespace

TEST_CASE("set, get, append, erase, and what they charge") {
  Store store;
  CHECK(store.set("/k", std::string_view("v")) == StoreStatus::ok);
  CHECK(store.set("/big", std::string(1000, 'x')) == StoreStatus::ok);
  CHECK(store.append("/k", "w") == StoreStatus::ok);
  CHECK(store.append("/new", "n") == StoreStatus::ok);
  CHECK(value_of(store, "/k") == "vw");
  CHECK(value_of(store, "/new") == "n");
  CHECK(store.size() == 3);
  CHECK(store.key_bytes() == 10);
  CHECK(store.memory() >= 1000 + 3 * kPerEntryBytes);
  CHECK(store.erase("/k"));
  CHECK_FALSE(store.erase("/k"));
  CHECK(store.erase("/big"));
  CHECK(store.erase("/new"));
  CHECK(store.memory() == 0);
  CHECK(store.key_bytes() == 0);
}

TEST_CASE("a replaced long value gives its memory back") {
  Store store;
  CHECK(store.set("/k", std::string(1 << 20, 'x')) == StoreStatus::ok);
  CHECK(store.set("/k", std::string_view("short")) == StoreStatus::ok);
  CHECK(store.memory() < 1024);
  CHECK(value_of(store, "/k") == "short");
}

TEST_CASE("compare_set tells the caller what PyTorch's server tells") {
  Store store;
  CHECK(store.compare_set("/k", "expected", "new").current == "expected");
  CHECK(value_of(store, "/k") == "(missing)");
  CHECK(store.compare_set("/k", "", "first").current == "first");
  CHECK(store.compare_set("/k", "wrong", "second").current == "first");
  CHECK(store.compare_set("/k", "first", "second").current == "second");
  CHECK(value_of(store, "/k") == "second");
  CHECK(store.compare_set("/k", "", "third").current == "second");
}

TEST_CASE("add reads leading digits and stores decimal text") {
  Store store;
  CHECK(store.add("/n", 5).value == 5);
  CHECK(store.add("/n", -7).value == -2);
  CHECK(value_of(store, "/n") == "-2");
  CHECK(store.set("/n", std::string_view("12abc")) == StoreStatus::ok);
  CHECK(store.add("/n", 1).value == 13);
  CHECK(store.set("/n", std::string_view(" +4")) == StoreStatus::ok);
  CHECK(store.add("/n", 1).value == 5);
  for (const char* text : {"", "x1", "-", "+-3", "99999999999999999999"}) {
    CHECK(store.set("/n", std::string_view(text)) == StoreStatus::ok);
    CHECK(store.add("/n", 1).status == StoreStatus::not_a_number);
    CHECK(value_of(store, "/n") == text);
  }
  CHECK(store.add("/max", std::numeric_limits<std::int64_t>::max()).status == StoreStatus::ok);
  CHECK(store.add("/max", 1).value == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("queues are first in, first out, and gone when empty") {
  Store store;
  std::size_t length = 7;
  CHECK_FALSE(store.queue_pop("/q", length).has_value());
  CHECK(length == 0);
  CHECK(store.queue_push("/q", std::string("a")) == StoreStatus::ok);
  CHECK(store.queue_push("/q", std::string(500, 'b')) == StoreStatus::ok);
  CHECK(store.present("/q"));
  CHECK(store.find("/q") == nullptr);
  CHECK(store.size() == 0);
  CHECK_FALSE(store.erase("/q"));
  CHECK(store.queue_length("/q") == 2);
  CHECK(store.queue_pop("/q", length).value() == "a");
  CHECK(length == 2);
  CHECK(store.queue_pop("/q", length).value() == std::string(500, 'b'));
  CHECK_FALSE(store.present("/q"));
  CHECK(store.memory() == 0);
}

TEST_CASE("a push wakes the one that waits longest, a set wakes all") {
  Store store;
  Sleeper first;
  Sleeper second;
  Sleeper third;
  CHECK(wait(store, first, {"/q"}) == StoreStatus::ok);
  CHECK(wait(store, second, {"/q"}) == StoreStatus::ok);
  CHECK(wait(store, third, {"/q"}) == StoreStatus::ok);
  CHECK(store.queue_push("/q", std::string("x")) == StoreStatus::ok);
  CHECK((first.woken == 1 && second.woken == 0 && third.woken == 0));
  CHECK(store.set("/q", std::string_view("x")) == StoreStatus::ok);
  CHECK((first.woken == 1 && second.woken == 1 && third.woken == 1));
  CHECK_FALSE(third.waiting());
}

TEST_CASE("waits: present keys, several keys, duplicates, deletion does not re-arm") {
  Store store;
  Sleeper sleeper;
  CHECK(wait(store, sleeper, {}) == StoreStatus::ok);
  CHECK_FALSE(sleeper.waiting());
  CHECK(store.set("/a", std::string_view("1")) == StoreStatus::ok);
  CHECK(wait(store, sleeper, {"/a", "/b", "/c", "/c"}) == StoreStatus::ok);
  CHECK(sleeper.waiting());
  CHECK(store.set("/b", std::string_view("1")) == StoreStatus::ok);
  CHECK(store.erase("/b"));
  CHECK(sleeper.woken == 0);
  CHECK(store.set("/c", std::string_view("1")) == StoreStatus::ok);
  CHECK(sleeper.woken == 1);
}

TEST_CASE("What a waiter still misses can be asked, up to a bound") {
  using Keys = std::vector<std::string_view>;
  Store store;
  Sleeper sleeper;
  CHECK(Store::awaited(sleeper, 9).empty());
  CHECK(store.set("/a", std::string_view("1")) == StoreStatus::ok);
  CHECK(wait(store, sleeper, {"/a", "/b", "/c"}) == StoreStatus::ok);
  CHECK(Store::awaited(sleeper, 9) == Keys{"/b", "/c"});
  CHECK(Store::awaited(sleeper, 1) == Keys{"/b"});
  CHECK(store.set("/b", std::string_view("1")) == StoreStatus::ok);
  CHECK(Store::awaited(sleeper, 9) == Keys{"/c"});
  store.cancel_wait(sleeper);
  CHECK(Store::awaited(sleeper, 9).empty());
}

TEST_CASE("cancelling one of many waiters leaves the others and their memory right") {
  Store store;
  std::vector<std::unique_ptr<Sleeper>> sleepers;
  for (int i = 0; i < 100; ++i) {
    sleepers.push_back(std::make_unique<Sleeper>());
    CHECK(wait(store, *sleepers.back(), {"/a", "/b"}) == StoreStatus::ok);
  }
  for (std::size_t i = 0; i < 100; i += 2) store.cancel_wait(*sleepers[i]);
  store.cancel_wait(*sleepers[0]);
  CHECK(store.set("/a", std::string_view("1")) == StoreStatus::ok);
  store.cancel_wait(*sleepers[1]);
  CHECK(store.set("/b", std::string_view("1")) == StoreStatus::ok);
  int woken = 0;
  for (const auto& sleeper : sleepers) woken += sleeper->woken;
  CHECK(woken == 49);
  CHECK(store.erase("/a"));
  CHECK(store.erase("/b"));
  CHECK(store.memory() == 0);
}

TEST_CASE("barrier counts arrivals, shares the waiters of its key and is not reset") {
  Store store;
  Sleeper first;
  Sleeper second;
  Sleeper ordinary;
  CHECK(wait(store, ordinary, {"/bar"}) == StoreStatus::ok);
  CHECK(store.barrier(first, "/bar", 2) == StoreStatus::ok);
  CHECK(first.waiting());
  CHECK(ordinary.woken == 0);
  CHECK(store.barrier(second, "/bar", 2) == StoreStatus::ok);
  CHECK((!second.waiting() && second.woken == 0 && first.woken == 1 && ordinary.woken == 1));
  CHECK(store.barrier(first, "/bar", 2) == StoreStatus::ok);
  CHECK_FALSE(first.waiting());
  CHECK(value_of(store, "/bar") == "3");
  CHECK(store.set("/text", std::string_view("x")) == StoreStatus::ok);
  CHECK(store.barrier(first, "/text", 2) == StoreStatus::not_a_number);
}

TEST_CASE("the memory cap refuses writes and waits, changes nothing, and lifts when keys go") {
  Store store(2000);
  Sleeper sleeper;
  const std::string large(1500, 'x');
  CHECK(store.set("/a", large) == StoreStatus::ok);
  CHECK(store.set("/b", large) == StoreStatus::full);
  CHECK(store.set("/b", std::string(large)) == StoreStatus::full);
  CHECK(store.append("/a", large) == StoreStatus::full);
  CHECK(store.queue_push("/q", std::string(large)) == StoreStatus::full);
  CHECK(store.compare_set("/b", "", large).status == StoreStatus::full);
  CHECK(wait(store, sleeper, {std::string_view(large).substr(0, 400)}) == StoreStatus::full);
  CHECK_FALSE(sleeper.waiting());
  CHECK(value_of(store, "/a") == large);
  CHECK(store.set("/a", std::string(1501, 'y')) == StoreStatus::ok);
  CHECK((store.size() == 1 && store.queue_length("/q") == 0));
  CHECK(store.memory() <= 2000);
  CHECK(store.erase("/a"));
  CHECK(store.set("/b", large) == StoreStatus::ok);
}
