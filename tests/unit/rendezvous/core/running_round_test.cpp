// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/running_round.hpp"

#include "catch.hpp"

#include <string>
#include <vector>

namespace running_round_test {

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

using Nodes = std::vector<NodeName>;

/// Nodes a, b, ... with two workers each have their places in round 3.
RunningRound of_nodes(int count) {
  std::vector<Seat> seats;
  for (int i = 0; i < count; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    seats.push_back(Seat{name, 2 * i, 2, Join{"host-" + name, ""}});
  }
  return {3, seats};
}

TimePoint at(Milliseconds time) {
  return TimePoint(time);
}

}  // namespace

TEST_CASE("A round gives its ranks out when its store is open, and measures from then on") {
  RunningRound round = of_nodes(2);
  CHECK(round.opening());
  const std::vector<RoundResult> results = round.begin({"10.0.0.1", 7}, 4, at(10s));
  CHECK(round.running());
  CHECK(round.lasted(at(13s)) == 3s);
  CHECK(results ==
        std::vector<RoundResult>{{3, 0, 2, 4, 0, "10.0.0.1", 7, 4}, {3, 1, 2, 4, 2, "10.0.0.1", 7, 4}});
}

TEST_CASE("A node may have live workers until it departs") {
  RunningRound round = of_nodes(3);
  CHECK(round.complete());
  CHECK(round.present() == Nodes{"a", "b", "c"});
  round.depart("b");
  CHECK_FALSE(round.complete());
  CHECK_FALSE(round.has("b"));
  CHECK(round.present() == Nodes{"a", "c"});
  round.depart("c");
  CHECK_FALSE(round.deserted());
  round.depart("a");
  CHECK(round.deserted());
}

TEST_CASE("Nodes that wait after their success are told once that the round falls short") {
  RunningRound round = of_nodes(4);
  for (const char* node : {"c", "b", "a"}) round.wait(node);
  round.wait_no_more("b");
  CHECK(round.may_succeed());
  CHECK(round.fall_short() == Nodes{"a", "c"});
  CHECK_FALSE(round.may_succeed());
  CHECK(round.fall_short().empty());
}

TEST_CASE("A round that ends keeps what its nodes were told; one that is closed is no success") {
  RunningRound ended = of_nodes(1);
  RoundEnd end;
  end.text = "rank 0 failed";
  ended.end(end);
  CHECK(ended.over());
  CHECK(ended.told() == end);
  CHECK(ended.may_succeed());
  RunningRound closed = of_nodes(2);
  closed.wait("a");
  closed.close();
  CHECK(closed.over());
  CHECK_FALSE(closed.may_succeed());
  CHECK(closed.fall_short().empty());
}

TEST_CASE("A round is told with the hosts that are still in it, as far as a line holds them") {
  RunningRound round = of_nodes(2);
  CHECK(round.text() == "round 3 runs on 2 nodes: host-a, host-b");
  round.depart("a");
  CHECK(round.text() == "round 3 runs on 1 node: host-b");
  CHECK(of_nodes(9).text() ==
        "round 3 runs on 9 nodes: host-a, host-b, host-c, host-d, host-e, host-f, host-g, host-h, ...");
}

}  // namespace running_round_test
