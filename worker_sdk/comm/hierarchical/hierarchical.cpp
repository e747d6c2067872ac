// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/text.hpp"
#include "worker_sdk/comm/hierarchical/hierarchical_backend.hpp"
#include "worker_sdk/comm/shm/join.hpp"

#include <algorithm>
#include <utility>

namespace muster::hierarchical {
namespace {

/// The plan of a part of the group, which is named so that messages about the part can be understood.
GroupPlan part_of(const GroupPlan& plan, const std::vector<int>& ranks, const std::string& what) {
  constexpr std::size_t kShown = 16;
  GroupPlan part;
  part.options = plan.options;
  part.alarm = plan.alarm;
  part.options.name = plan.options.name + " (" + what + joined(ranks, ", ", kShown) + ")";
  part.shown_ranks = ranks;
  part.size = static_cast<int>(ranks.size());
  part.rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), plan.rank) - ranks.begin());
  for (const int rank : ranks)
    part.members.push_back(plan.members.empty() ? rank : plan.members[static_cast<std::size_t>(rank)]);
  return part;
}

plugin::Surroundings around(const plugin::Surroundings& all, const std::vector<int>& ranks) {
  plugin::Surroundings part = all;
  part.hosts.clear();
  for (const int rank : ranks) part.hosts.push_back(all.hosts[static_cast<std::size_t>(rank)]);
  return part;
}

}  // namespace

std::unique_ptr<Backend> join(const GroupPlan& plan, const plugin::GroupKey& key,
                              const plugin::Surroundings& surroundings, StoreClient& store,
                              const std::shared_ptr<plugin::FailureChannel>& channel) {
  Hosts hosts(surroundings.hosts);
  if (hosts.ranks.size() == 1) return shm::join_shm(&store, plan);
  if (hosts.ranks.size() == static_cast<std::size_t>(plan.size))
    return std::make_unique<plugin::PluginBackend>("gloo", plan, key, surroundings, store, channel);
  const auto& own = hosts.ranks[static_cast<std::size_t>(hosts.host_of[static_cast<std::size_t>(plan.rank)])];
  std::vector<int> leaders;
  for (const auto& ranks : hosts.ranks) leaders.push_back(ranks.front());
  Parts parts;
  parts.local = shm::join_shm(
      &store,
      part_of(plan, own, "on host " + surroundings.hosts[static_cast<std::size_t>(plan.rank)] + ": ranks "));
  if (own.front() == plan.rank)
    parts.leaders = std::make_unique<plugin::PluginBackend>(
        "gloo", part_of(plan, leaders, "first of each host: ranks "), plugin::GroupKey{key.text + "/leaders"},
        around(surroundings, leaders), store, channel);
  parts.all = std::make_unique<plugin::PluginBackend>("gloo", plan, plugin::GroupKey{key.text + "/all"},
                                                      surroundings, store, channel);
  return std::make_unique<HierarchicalBackend>(plan, std::move(hosts), std::move(parts), key.text, channel);
}

}  // namespace muster::hierarchical
