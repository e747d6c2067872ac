// SPDX-License-Identifier: Apache-2.0
// A barrier among the nodes of a round. Pure.
#pragma once

#include "rendezvous/protocol/ids.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace muster::rendezvous {

/// Open barriers that one node has opened: each is kept until the others come.
inline constexpr std::size_t kMaxOpenBarriersPerNode = 64;

/// "n07, n09 and 3 more"; names in the order given.
std::string list_names(const std::vector<NodeName>& names, std::size_t total);

/// The nodes of a round: one list for all its barriers.
struct BarrierMembers {
  explicit BarrierMembers(std::vector<NodeName> list);

  std::vector<NodeName> in_order;
  std::unordered_set<NodeName> names;
};

class Barrier {
 public:
  /// `members` are those who must enter; `deadline` is when the first of them stops waiting; `opener` is the
  /// one who came first.
  Barrier(std::shared_ptr<const BarrierMembers> members, TimePoint deadline, NodeName opener = {});

  /// Entering twice counts once; a stranger's entry counts not at all. True when everybody has entered.
  bool enter(const NodeName& name);

  bool complete() const { return entered_.size() == members_->names.size(); }

  const NodeName& opener() const { return opener_; }

  /// Someone with less patience has come.
  void shorten(TimePoint deadline) {
    if (deadline < deadline_) deadline_ = deadline;
  }

  TimePoint deadline() const { return deadline_; }

  bool waits_for(const NodeName& name) const {
    return members_->names.count(name) > 0 && entered_.count(name) == 0;
  }

  /// Those who have entered, in member order.
  std::vector<NodeName> entered() const;
  /// For people: the first few names of those who have not, in member order.
  std::string missing_text() const;

 private:
  std::shared_ptr<const BarrierMembers> members_;
  std::unordered_set<NodeName> entered_;
  TimePoint deadline_;
  NodeName opener_;
};

}  // namespace muster::rendezvous
