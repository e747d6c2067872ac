// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/start_tree.hpp"

#include "catch.hpp"

#include <algorithm>

namespace muster::launcher {
namespace {

using Nodes = std::vector<std::size_t>;

StartTree tree_of(std::size_t hosts, int width) {
  return StartTree(std::vector<bool>(hosts, false), width);
}

TEST_CASE("Hosts start hosts in the order in which they are listed") {
  const StartTree tree = tree_of(9, 2);
  const std::vector<int> parents = {-1, -1, 0, 0, 1, 1, 2, 2, 3};
  for (std::size_t i = 0; i < parents.size(); ++i) CHECK(tree.parent(i) == parents[i]);
  CHECK(tree.children(0) == Nodes{2, 3});
  CHECK(tree.children(3) == Nodes{8});
  CHECK(tree.children(8).empty());
  CHECK(tree.is_inner(2));
  CHECK_FALSE(tree.is_inner(4));
  CHECK(tree.subtree(0) == Nodes{0, 2, 3, 6, 7, 8});
  CHECK(tree.subtree(5) == Nodes{5});
  CHECK(tree.levels(0) == 2);
  CHECK(tree.levels(1) == 1);
  CHECK(tree.levels(8) == 0);
}

TEST_CASE("Nobody starts more hosts than the width, each host is started once, and no way is too long") {
  for (const std::size_t hosts : {1U, 2U, 5U, 16U, 17U, 85U, 300U})
    for (const int width : {1, 2, 3, 4, 8, 64}) {
      const StartTree tree = tree_of(hosts, width);
      std::size_t seen = 0;
      std::size_t roots = 0;
      for (std::size_t i = 0; i < hosts; ++i) {
        CHECK(tree.children(i).size() <= static_cast<std::size_t>(width));
        if (tree.parent(i) != StartTree::kNobody) {
          CHECK(tree.parent(i) < static_cast<int>(i));
          continue;
        }
        ++roots;
        seen += tree.subtree(i).size();
      }
      CHECK(roots == std::min(hosts, static_cast<std::size_t>(width)));
      CHECK(seen == hosts);
      std::size_t reached = 0;
      std::size_t level = 1;
      int levels = 0;
      while (reached < hosts) {
        level *= static_cast<std::size_t>(width);
        reached += level;
        ++levels;
      }
      int depth = 1;
      for (int at = tree.parent(hosts - 1); at != StartTree::kNobody;
           at = tree.parent(static_cast<std::size_t>(at)))
        ++depth;
      CHECK(depth == levels);
      CHECK(static_cast<int>(tree.levels(0)) == levels - 1);
    }
}

TEST_CASE("The launcher's own host has no part in the tree") {
  const StartTree tree({true, false, false, false, false, true, false}, 2);
  const std::vector<int> parents = {-1, -1, -1, 1, 1, -1, 2};
  for (std::size_t i = 0; i < parents.size(); ++i) CHECK(tree.parent(i) == parents[i]);
  CHECK(tree.children(0).empty());
  CHECK(StartTree().parent(3) == StartTree::kNobody);
  CHECK_FALSE(StartTree().is_inner(0));
}

TEST_CASE("A host learns of those below it only") {
  const StartTree tree = tree_of(9, 2);
  BranchPlan plan;
  plan.agent_command = "agent";
  plan.push = true;
  plan.login_timeout_ms = 60'000;
  for (const std::size_t node : tree.subtree(0)) plan.nodes.push_back({node, tree.parent(node), "n", {}});
  const BranchPlan below = plan.below(2);
  CHECK(below.agent_command == "agent");
  CHECK(below.push);
  CHECK(below.login_timeout_ms == 60'000);
  REQUIRE(below.nodes.size() == 3);
  CHECK(below.nodes[0].index == 2);
  CHECK(below.nodes[1].index == 6);
  CHECK(below.nodes[2].index == 7);
  CHECK(plan.below(8).nodes.size() == 1);
}

}  // namespace
}  // namespace muster::launcher
