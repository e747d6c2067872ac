// SPDX-License-Identifier: Apache-2.0
// Who logs in where when hosts start other hosts (--ssh-tree). Pure.
#pragma once

#include "launcher/start/core/ssh_command.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::launcher {

/// Nodes are numbers from 0, in the order of the job.
class StartTree {
 public:
  static constexpr int kNobody = -1;

  /// No tree: the launcher starts everybody.
  StartTree() = default;

  /// Each of us, the launcher and the hosts, starts at most `width` hosts (at least 1), in the order in which
  /// they are listed: first all that the launcher starts, then those of the first host, and so on, so that no
  /// way is longer than it must be. `local[n]`: node n is on the launcher's host, which forks it and has no
  /// part in this.
  StartTree(const std::vector<bool>& local, int width);

  /// The node whose host starts this one; kNobody: the launcher does.
  int parent(std::size_t node) const { return node < parents_.size() ? parents_[node] : kNobody; }

  /// In order.
  const std::vector<std::size_t>& children(std::size_t node) const;

  /// Starts others.
  bool is_inner(std::size_t node) const { return !children(node).empty(); }

  /// It, then all that is reached through it, each after its parent.
  std::vector<std::size_t> subtree(std::size_t node) const;

  /// Of hosts below this one, one below the other.
  std::size_t levels(std::size_t node) const;

 private:
  std::vector<int> parents_;
  std::vector<std::vector<std::size_t>> children_;
};

/// What a host that starts others must know.
struct BranchPlan {
  struct Node {
    std::size_t index = 0;
    /// Index of the node that starts it.
    int parent = StartTree::kNobody;
    /// Of the job, for messages.
    std::string name;
    SshTarget target;
  };

  SshClient client;
  /// For the shells there: become `muster agent`, or `muster branch`.
  std::string agent_command;
  std::string branch_command;
  /// A host may ask for a copy of the executable.
  bool push = false;
  /// For each login, in milliseconds: RemoteOptions has it.
  std::int64_t login_timeout_ms = 10'000;
  /// First the host itself; each one after its parent.
  std::vector<Node> nodes;

  /// The plan of one of its nodes.
  BranchPlan below(std::size_t index) const;
};

}  // namespace muster::launcher
