// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/placement.hpp"

#include "catch.hpp"
#include "tests/unit/launcher/hosts/refusal.hpp"

#include <algorithm>
#include <numeric>
#include <random>

using namespace muster::launcher;

namespace {

std::vector<Host> hosts_of(const std::string& list) {
  return parse_host_list({list, "--host"});
}

PlacementWishes total(int workers, MapBy map_by = MapBy::slot, bool oversubscribe = false) {
  PlacementWishes wishes;
  wishes.total = workers;
  wishes.total_given = GivenText{std::to_string(workers), "--np"};
  wishes.map_by = map_by;
  wishes.oversubscribe = oversubscribe;
  return wishes;
}

PlacementWishes per_node(int workers) {
  PlacementWishes wishes;
  wishes.per_node = workers;
  wishes.per_node_given = GivenText{std::to_string(workers), "--nproc-per-node"};
  return wishes;
}

PlacementWishes by_word(const std::string& word) {
  PlacementWishes wishes;
  wishes.per_node_word = word;
  wishes.per_node_given = GivenText{word, "--nproc-per-node"};
  return wishes;
}

/// "n0:0-3 n1:4" for each node.
std::string shown(const std::vector<NodePlan>& nodes) {
  std::string text;
  for (const NodePlan& node : nodes) {
    text += (text.empty() ? "" : " ") + node.name + ":" + std::to_string(node.first_rank);
    if (node.workers > 1) text += "-" + std::to_string(node.first_rank + node.workers - 1);
  }
  return text;
}

std::string placed(const std::string& list, const PlacementWishes& wishes) {
  return shown(place_workers(hosts_of(list), wishes));
}

Refusal refused(const std::string& list, const PlacementWishes& wishes) {
  return refusal_of([&] { placed(list, wishes); });
}

}  // namespace

TEST_CASE("Without a total every slot gets a worker") {
  CHECK(placed("n0:2,n1:3", {}) == "n0:0-1 n1:2-4");
  CHECK(placed("n0,n1", {}) == "n0:0 n1:1");
  CHECK(placed("n0,n1:3", per_node(2)) == "n0:0-1 n1:2-3");
  CHECK(placed("n2:1,n0:2", {}) == "n2:0 n0:1-2");
}

TEST_CASE("A total fills slots in order, or is spread over the nodes") {
  CHECK(placed("n0:4,n1:4,n2:4", total(6)) == "n0:0-3 n1:4-5");
  CHECK(placed("n0:4,n1:4,n2:4", total(6, MapBy::node)) == "n0:0-1 n1:2-3 n2:4-5");
  CHECK(placed("n0:1,n1:4,n2:2", total(6, MapBy::node)) == "n0:0 n1:1-3 n2:4-5");
  CHECK(placed("n0:1,n1:4,n2:2", total(2)) == "n0:0 n1:1");
  CHECK(placed("n0:4,n1:4", total(8)) == placed("n0:4,n1:4", {}));
}

TEST_CASE("More workers than slots need the word for it") {
  const Refusal refusal = refused("n0:2,n1:1", total(4));
  CHECK(refusal.text ==
        "--np=4: the hosts have 3 slots (n0 has 2, n1 has 1); ask for fewer workers, write more slots "
        "(HOST:SLOTS), or give --oversubscribe");
  CHECK(refused("a,b,c,d,e,f", total(7)).says("(a has 1, b has 1, c has 1, d has 1, and 2 more hosts)"));
  CHECK(placed("n0:2,n1:1", total(4, MapBy::slot, true)) == "n0:0-2 n1:3");
  CHECK(placed("n0:2,n1:1", total(9, MapBy::slot, true)) == "n0:0-4 n1:5-8");
  CHECK(placed("n0:5,n1:1", total(8, MapBy::node, true)) == "n0:0-3 n1:4-7");
  const Refusal node = refused("n0:2,n1:1", per_node(2));
  CHECK(node.says("--nproc-per-node=2: host 'n1' (--host, position 6) has 1 slot; ask for fewer workers"));
  PlacementWishes more = per_node(2);
  more.oversubscribe = true;
  CHECK(placed("n0:2,n1:1", more) == "n0:0-1 n1:2-3");
}

TEST_CASE("Not even oversubscription goes beyond max-slots") {
  std::vector<Host> hosts = parse_hostfile("n0 slots=1 max-slots=2\nn1 slots=1\n", "f");
  CHECK(shown(place_workers(hosts, total(6, MapBy::slot, true))) == "n0:0-1 n1:2-5");
  hosts[1].max_slots = 3;
  CHECK(shown(place_workers(hosts, total(5, MapBy::slot, true))) == "n0:0-1 n1:2-4");
  CHECK(refusal_of([&] { place_workers(hosts, total(6, MapBy::slot, true)); }).says("max-slots"));
  PlacementWishes wishes = per_node(3);
  wishes.oversubscribe = true;
  CHECK(refusal_of([&] { place_workers(hosts, wishes); }).says("host 'n0' (f:1:1) has 1 slot, at most 2"));
}

TEST_CASE("Workers that each host counts") {
  const auto nodes = place_workers(hosts_of("n0,n1"), by_word("gpu"));
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].workers == 0);
  CHECK(nodes[0].workers_by == "gpu");
  CHECK(nodes[0].first_rank == 0);
  CHECK(nodes[1].first_rank == -1);
  CHECK(refused("n0:8,n1", by_word("gpu")).says("host 'n0' (--host, position 1) is given 8 slots"));
  PlacementWishes both = by_word("cpu");
  both.total_given = GivenText{"4", "--np"};
  CHECK(refused("n0", both).says("--np=4 and --nproc-per-node=cpu contradict each other"));
}

TEST_CASE("A node's GPUs are those of its local ranks") {
  Host host;
  host.name = "n0";
  host.slots = 2;
  host.gpus = {1, 3};
  const NodePlan node = place_workers({host}, {}).front();
  CHECK(node.workers == 2);
  CHECK(gpu_of(node, 0) == 1);
  CHECK(gpu_of(node, 1) == 3);
  CHECK(gpu_of(node, 2) == 1);
  CHECK(gpu_of(NodePlan{}, 5) == 5);
}

TEST_CASE("Hosts that differ in the port only have names of their own") {
  CHECK(placed("h:2201:1,h:2202:1,g:2203:1,h", {}) == "h:2201:0 h:2202:1 g:2 h:3");
  const NodePlan node = place_workers(hosts_of("ann@n7:2222:1"), {}).front();
  CHECK(node.name == "n7");
  CHECK(node.user == "ann");
  CHECK(node.ssh_target == "n7");
  CHECK(node.ssh_port == 2222);
}

TEST_CASE("Any placement gives every rank once, contiguous and within the slots") {
  std::mt19937 random(7);
  const auto number = [&random](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<Host> hosts(static_cast<std::size_t>(number(1, 12)));
    int slots = 0;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      hosts[i].name = "n" + std::to_string(i);
      hosts[i].slots = number(0, 5);
      slots += std::max(1, hosts[i].slots);
    }
    const bool oversubscribe = number(0, 1) == 1;
    const MapBy map_by = number(0, 1) == 1 ? MapBy::node : MapBy::slot;
    const int wanted = number(1, oversubscribe ? 3 * slots : slots);
    CAPTURE(round, wanted, slots, oversubscribe, map_by == MapBy::node);
    const auto nodes = place_workers(hosts, total(wanted, map_by, oversubscribe));
    CHECK(shown(nodes) == shown(place_workers(hosts, total(wanted, map_by, oversubscribe))));
    int next = 0;
    for (const NodePlan& node : nodes) {
      REQUIRE(node.workers > 0);
      CHECK(node.first_rank == next);
      next += node.workers;
      if (wanted <= slots) CHECK(node.workers <= std::max(1, node.slots));
    }
    CHECK(next == wanted);
    if (wanted > slots) {  // what is dealt out beyond the slots is shared equally
      int least = wanted, most = 0;
      for (const NodePlan& node : nodes) {
        const int share = node.workers - (map_by == MapBy::node ? 0 : std::max(1, node.slots));
        least = std::min(least, share);
        most = std::max(most, share);
      }
      CHECK(most - least <= 1);
    }
  }
}
