// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/barrier.hpp"

#include "rendezvous/protocol/limits.hpp"

#include <utility>

namespace muster::rendezvous {

std::string list_names(const std::vector<NodeName>& names, std::size_t total) {
  std::string text;
  std::size_t listed = 0;
  for (const NodeName& name : names) {
    if (listed == kMaxNamesInText) break;
    if (listed++ > 0) text += ", ";
    text += name;
  }
  if (total > listed) text += (listed > 0 ? " and " : "") + std::to_string(total - listed) + " more";
  return text;
}

BarrierMembers::BarrierMembers(std::vector<NodeName> list)
    : in_order(std::move(list)), names(in_order.begin(), in_order.end()) {}

Barrier::Barrier(std::shared_ptr<const BarrierMembers> members, TimePoint deadline, NodeName opener)
    : members_(std::move(members)), deadline_(deadline), opener_(std::move(opener)) {}

bool Barrier::enter(const NodeName& name) {
  if (members_->names.count(name) > 0) entered_.insert(name);
  return complete();
}

std::vector<NodeName> Barrier::entered() const {
  std::vector<NodeName> names;
  names.reserve(entered_.size());
  for (const NodeName& name : members_->in_order)
    if (entered_.count(name) > 0) names.push_back(name);
  return names;
}

std::string Barrier::missing_text() const {
  std::vector<NodeName> names;
  for (const NodeName& name : members_->in_order) {
    if (names.size() == kMaxNamesInText) break;
    if (entered_.count(name) == 0) names.push_back(name);
  }
  return list_names(names, members_->names.size() - entered_.size());
}

}  // namespace muster::rendezvous
