// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/flight_match.hpp"

#include "catch.hpp"

#include <string>
#include <utility>
#include <vector>

namespace flight_match_test {

using namespace muster::rendezvous;

namespace {

FlightCall call(std::uint64_t sequence, const std::string& name = "all_reduce",
                const std::string& state = "started", const std::string& sizes = "[[4, 8]]",
                const std::string& types = "[Float]") {
  return {sequence, name, sizes, sizes, types, state};
}

/// What a rank of four knows of its group, whose last call is that of `calls`.
FlightRank rank_with(int rank, std::uint64_t last, std::vector<FlightCall> calls, bool whole = true) {
  return {rank, {{"default_pg", "0", {0, 1, 2, 3}, last, std::move(calls), whole}}};
}

std::vector<std::string> matched(const FlightRank& rank3, const FlightCall& of_others) {
  std::vector<FlightRank> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.push_back(rank_with(rank, of_others.sequence, {of_others}));
  ranks.push_back(rank3);
  return match_flight_records(ranks);
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("A rank that never came to a collective is named") {
  CHECK(matched(rank_with(3, 40, {}), call(41)) ==
        Lines{"rank 3 never entered all_reduce 41 of group default_pg; ranks 0-2 wait in it"});
  CHECK(matched(rank_with(3, 0, {}), call(1)) ==
        Lines{"rank 3 never entered all_reduce 1 of group default_pg; ranks 0-2 wait in it"});
}

TEST_CASE("A rank whose call differs is named with the difference that tells most") {
  CHECK(matched(rank_with(3, 41, {call(41, "broadcast", "started", "[[1]]")}), call(41)) ==
        Lines{"all_reduce 41 of group default_pg: rank 3 has broadcast, ranks 0-2 have all_reduce"});
  CHECK(matched(rank_with(3, 41, {call(41, "all_reduce", "started", "[[1]]")}), call(41)) ==
        Lines{"all_reduce 41 of group default_pg: rank 3 has input sizes [[1]], ranks 0-2 have input sizes "
              "[[4, 8]]"});
  CHECK(matched(rank_with(3, 41, {call(41, "all_reduce", "started", "[[4, 8]]", "[Half]")}), call(41)) ==
        Lines{"all_reduce 41 of group default_pg: rank 3 has types [Half], ranks 0-2 have types [Float]"});
  CHECK(matched(rank_with(3, 41, {call(41, "all_reduce", "scheduled")}), call(41)) ==
        Lines{"all_reduce 41 of group default_pg: rank 3 has state scheduled, ranks 0-2 have state started"});
  CHECK(matched(rank_with(3, 41, {call(41, "all_to_all", "started", "[[1]]")}), call(41, "all_to_all"))
            .empty());
}

TEST_CASE("Not the rank that waits in a call is odd, but those whose stream has not reached it") {
  const auto found = find_flight_mismatches({rank_with(0, 41, {call(41)}),
                                             rank_with(1, 41, {call(41, "all_reduce", "scheduled")}),
                                             rank_with(2, 41, {call(41, "all_reduce", "scheduled")})});
  REQUIRE(found.size() == 1);
  CHECK(found[0].odd == std::vector<int>{1, 2});
}

TEST_CASE("Nothing is said where all match, nor of a rank that is further") {
  CHECK(matched(rank_with(3, 41, {call(41)}), call(41)).empty());
  CHECK(matched(rank_with(3, 43, {call(43)}), call(43)).empty());
  CHECK(match_flight_records({}).empty());
  std::vector<FlightRank> done;
  for (int rank = 0; rank < 4; ++rank) done.push_back(rank_with(rank, 41, {}));
  CHECK(match_flight_records(done).empty());
}

TEST_CASE("Of ranks without a record it is only said that there is none") {
  CHECK(
      match_flight_records({rank_with(0, 41, {call(41)}), rank_with(1, 41, {call(41)})}) ==
      Lines{"ranks 0, 1 wait in all_reduce 41 of group default_pg; there is no flight record of ranks 2, 3"});
}

TEST_CASE("A rank whose record holds no call of the group any more is not accused") {
  CHECK(matched(rank_with(3, 0, {}), call(41)) ==
        Lines{"ranks 0-2 wait in all_reduce 41 of group default_pg; there is no flight record of rank 3"});
  // Not even of the first call, which it may have made and lost.
  CHECK(matched(rank_with(3, 0, {}, false), call(1)) ==
        Lines{"ranks 0-2 wait in all_reduce 1 of group default_pg; there is no flight record of rank 3"});
}

TEST_CASE("Groups are the same by name and members, and each is judged by itself") {
  FlightRank one{0, {{"tp", "1", {0, 1}, 7, {call(7)}}, {"dp", "2", {0, 2}, 9, {call(9, "all_gather")}}}};
  FlightRank other{1, {{"tp", "1", {0, 1}, 6, {}}, {"dp", "2", {1, 3}, 5, {}}}};
  FlightRank third{2, {{"dp", "2", {0, 2}, 9, {call(9, "all_gather")}}}};
  CHECK(match_flight_records({one, other, third}) ==
        Lines{"rank 1 never entered all_reduce 7 of group tp; rank 0 waits in it"});
}

TEST_CASE("Of ranks that do not match those are odd that the others wait for, if any stand out") {
  const auto found = [](const FlightRank& rank3, std::uint64_t sequence) {
    std::vector<FlightRank> ranks;
    for (int rank = 0; rank < 3; ++rank) ranks.push_back(rank_with(rank, sequence, {call(sequence)}));
    ranks.push_back(rank3);
    return find_flight_mismatches(ranks);
  };
  const auto never = found(rank_with(3, 40, {}), 41);
  REQUIRE(never.size() == 1);
  CHECK(never[0].odd == std::vector<int>{3});
  CHECK(never[0].waiting == std::vector<int>{0, 1, 2});
  CHECK_FALSE(never[0].unknown);
  const auto other = found(rank_with(3, 41, {call(41, "broadcast")}), 41);
  REQUIRE(other.size() == 1);
  CHECK(other[0].odd == std::vector<int>{3});
  CHECK(other[0].waiting == std::vector<int>{0, 1, 2, 3});
  // All that have come wait for all that have not, be these the more.
  const auto most = find_flight_mismatches(
      {rank_with(0, 41, {call(41)}), rank_with(1, 40, {}), rank_with(2, 40, {}), rank_with(3, 40, {})});
  REQUIRE(most.size() == 1);
  CHECK(most[0].odd == std::vector<int>{1, 2, 3});
  const auto half = find_flight_mismatches({rank_with(0, 41, {call(41)}), rank_with(1, 41, {call(41)}),
                                            rank_with(2, 41, {call(41, "broadcast")}),
                                            rank_with(3, 41, {call(41, "broadcast")})});
  REQUIRE(half.size() == 1);
  CHECK(half[0].odd.empty());
  const auto without = find_flight_mismatches({rank_with(0, 41, {call(41)})});
  REQUIRE(without.size() == 1);
  CHECK(without[0].unknown);
  CHECK(without[0].odd.empty());
}

}  // namespace flight_match_test
