// SPDX-License-Identifier: Apache-2.0
// What the ranks agree on, with a broadcast of the test in MPI's place. Real MPI: tests/e2e/world.
#include "worker_sdk/world/mpi_meeting.hpp"

#include "catch.hpp"
#include "muster/error.hpp"

namespace muster {
namespace {

/// A rank's broadcast when all the others' notes are known.
TextBroadcast replay(const std::vector<MpiNote>& notes) {
  return [notes](std::string& text, int root) {
    if (text.empty()) text = notes[static_cast<std::size_t>(root)].to_text();
  };
}

TEST_CASE("on one host the store is served on loopback, for that host alone") {
  const MpiNote here{"boot", {"10.0.0.1"}};
  const ServingPlan plan = agree_on_serving(replay({here, here}), 1, 2, here);
  CHECK(plan.host == "127.0.0.1");
  CHECK(plan.allow.empty());
}

TEST_CASE("on several hosts rank 0 serves on its first address, for the addresses of the job's hosts") {
  const std::vector<MpiNote> notes{
      {"a", {"10.0.0.1", "fd00::1"}}, {"a", {"10.0.0.1", "fd00::1"}}, {"b", {"10.0.0.2"}}};
  for (int rank = 0; rank < 3; ++rank) {
    const ServingPlan plan = agree_on_serving(replay(notes), rank, 3, notes[static_cast<std::size_t>(rank)]);
    CHECK(plan.host == "10.0.0.1");
    CHECK(plan.allow == std::vector<std::string>{"10.0.0.1", "fd00::1", "10.0.0.2"});
  }
}

TEST_CASE("a host without addresses cannot serve others") {
  const std::vector<MpiNote> notes{{"a", {}}, {"b", {"10.0.0.2"}}};
  CHECK_THROWS_AS(agree_on_serving(replay(notes), 0, 2, notes[0]), Error);
}

TEST_CASE("what rank 0 could not do is told to all") {
  std::string sent;
  const TextBroadcast send = [&sent](std::string& text, int) { sent = text; };
  const TextBroadcast receive = [&sent](std::string& text, int) { text = sent; };
  CHECK(share_endpoint(send, 0, [] { return std::string("[fd00::1]:2000"); }) == "[fd00::1]:2000");
  CHECK(share_endpoint(receive, 1, nullptr) == "[fd00::1]:2000");
  const auto fail = []() -> std::string { throw Error(ErrorCode::io, "no port is free"); };
  CHECK_THROWS_WITH(share_endpoint(send, 0, fail), "no port is free");
  CHECK_THROWS_WITH(share_endpoint(receive, 1, nullptr), "no port is free");
}

TEST_CASE("addresses of this host are numbers that others can reach") {
  for (const std::string& address : host_addresses("")) {
    CHECK(address != "127.0.0.1");
    CHECK(address != "::1");
    CHECK(address.find_first_not_of("0123456789abcdef.:") == std::string::npos);
  }
  CHECK(host_addresses("no-such-interface").empty());
}

}  // namespace
}  // namespace muster
