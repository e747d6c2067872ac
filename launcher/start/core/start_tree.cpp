// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/start_tree.hpp"

#include <algorithm>
#include <set>

namespace muster::launcher {

StartTree::StartTree(const std::vector<bool>& local, int width)
    : parents_(local.size(), kNobody), children_(local.size()) {
  std::vector<std::size_t> remote;
  for (std::size_t i = 0; i < local.size(); ++i)
    if (!local[i]) remote.push_back(i);
  const auto each = static_cast<std::size_t>(std::max(width, 1));
  for (std::size_t place = each; place < remote.size(); ++place) {
    const std::size_t parent = remote[place / each - 1];
    parents_[remote[place]] = static_cast<int>(parent);
    children_[parent].push_back(remote[place]);
  }
}

const std::vector<std::size_t>& StartTree::children(std::size_t node) const {
  static const std::vector<std::size_t> none;
  return node < children_.size() ? children_[node] : none;
}

std::vector<std::size_t> StartTree::subtree(std::size_t node) const {
  std::vector<std::size_t> found{node};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<std::size_t>& next = children(found[i]);
    found.insert(found.end(), next.begin(), next.end());
  }
  return found;
}

std::size_t StartTree::levels(std::size_t node) const {
  // The first child has as long a way below it as any other.
  std::size_t count = 0;
  while (is_inner(node)) {
    node = children(node).front();
    ++count;
  }
  return count;
}

BranchPlan BranchPlan::below(std::size_t index) const {
  BranchPlan plan{client, agent_command, branch_command, push, login_timeout_ms, {}};
  std::set<int> inside{static_cast<int>(index)};
  for (const Node& node : nodes) {
    if (node.index != index && !inside.contains(node.parent)) continue;
    inside.insert(static_cast<int>(node.index));
    plan.nodes.push_back(node);
  }
  return plan;
}

}  // namespace muster::launcher
