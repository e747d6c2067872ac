// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/nearest_key.hpp"

#include "catch.hpp"

#include <string>
#include <vector>

namespace nearest_key_test {

using namespace muster::rendezvous;

namespace {

std::string nearest(const std::string& missing, const std::vector<std::string>& keys) {
  NearestKey found(missing);
  for (const std::string& key : keys) found.offer(key);
  return found.found();
}

}  // namespace

TEST_CASE("The key that was meant is the one with the fewest letters to change") {
  CHECK(nearest("epcoh", {"epoch", "loss", "epochs/1"}) == "epoch");
  CHECK(nearest("step/12", {"step/13", "stop/12"}) == "step/13");
  CHECK(nearest("ready", {"default_pg/0//cpu//0/0", "x"}).empty());
  CHECK(nearest("", {"a"}) == "a");
  CHECK(nearest("a", {}).empty());
}

TEST_CASE("Which of several equally near keys is found does not depend on their order") {
  const std::vector<std::string> keys{"group/3/rank/1", "group/4/rank/2", "group/3/rank/3"};
  const std::string forward = nearest("group/3/rank/2", keys);
  CHECK(forward == "group/3/rank/1");
  CHECK(nearest("group/3/rank/2", {keys.rbegin(), keys.rend()}) == forward);
}

TEST_CASE("Long keys that differ in the middle are compared, and hostile ones cost little") {
  const std::string part(4000, 'x');
  CHECK(nearest(part + "abc" + part, {part + "abd" + part}) == part + "abd" + part);
  // Nothing in common, many times: the effort is bounded, and no near key is found.
  const std::vector<std::string> hostile(5000, std::string(8000, 'b'));
  CHECK(nearest(std::string(8000, 'a'), hostile).empty());
}

TEST_CASE("Only so many keys of a store are looked at") {
  Store store;
  REQUIRE(store.set("epoch", std::string_view("1")) == StoreStatus::ok);
  REQUIRE(store.set("loss", std::string_view("1")) == StoreStatus::ok);
  CHECK(nearest_key(store, "epocj") == "epoch");
  std::size_t seen = 0;
  store.for_each_key([&seen](std::string_view) { ++seen; }, 1);
  CHECK(seen == 1);
}

}  // namespace nearest_key_test
