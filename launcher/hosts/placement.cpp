// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/placement.hpp"

#include "launcher/core/launch_error.hpp"

#include <algorithm>

namespace muster::launcher {
namespace {

constexpr int kMaxWorkers = 1 << 20;
/// Most hosts that an error lists.
constexpr std::size_t kListed = 4;

/// Room and load of one host.
struct Load {
  int slots = 0;
  /// Most workers that the host may run, above `slots` only by --oversubscribe.
  int most = 0;
  int workers = 0;
};

std::string plural(int count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

/// Returns a text such as "n0 has 4, n1 has 2, and 14 more".
std::string list_slots(const std::vector<Host>& hosts, const std::vector<Load>& loads) {
  std::string text;
  for (std::size_t i = 0; i < std::min(hosts.size(), kListed); ++i)
    text += (i == 0 ? "" : ", ") + hosts[i].name + " has " + std::to_string(loads[i].slots);
  if (hosts.size() > kListed) text += ", and " + std::to_string(hosts.size() - kListed) + " more hosts";
  return text;
}

/// Returns the number of workers that each host may run: its slots or, without them, --nproc-per-node.
std::vector<Load> loads_of(const std::vector<Host>& hosts, const PlacementWishes& wishes) {
  std::vector<Load> loads;
  for (const Host& host : hosts) {
    Load load;
    const int limit = host.max_slots > 0 ? host.max_slots : kMaxSlots;
    load.slots = host.slots > 0 ? host.slots : std::min(wishes.per_node, limit);
    load.most = wishes.oversubscribe ? std::max(limit, load.slots) : load.slots;
    if (wishes.per_node_given) {
      if (wishes.per_node_word.empty() && wishes.per_node > load.most)
        throw UsageError(wishes.per_node_given->quoted() + ": host '" + host.name + "' (" + host.place +
                         ") has " + plural(load.slots, "slot") +
                         (wishes.oversubscribe ? ", at most " + std::to_string(load.most) : "") +
                         "; ask for fewer workers, raise its slots" +
                         (wishes.oversubscribe ? "" : ", or give --oversubscribe"));
      if (wishes.per_node_word.empty()) load.slots = load.most = wishes.per_node;
    }
    loads.push_back(load);
  }
  return loads;
}

/// Gives out up to `total` workers below `limit_of(load)`; returns how many are left.
template <typename Limit>
int fill(std::vector<Load>& loads, int total, MapBy map_by, Limit limit_of) {
  if (map_by == MapBy::slot) {
    for (Load& load : loads) {
      const int count = std::min(total, limit_of(load) - load.workers);
      load.workers += count;
      total -= count;
    }
    return total;
  }
  for (bool given = true; given && total > 0;) {
    given = false;
    for (Load& load : loads) {
      if (total == 0 || load.workers >= limit_of(load)) continue;
      ++load.workers;
      --total;
      given = true;
    }
  }
  return total;
}

void place_total(const std::vector<Host>& hosts, const PlacementWishes& wishes, std::vector<Load>& loads) {
  int left = fill(loads, wishes.total, wishes.map_by, [](const Load& load) { return load.slots; });
  const auto error = [&](const std::string& advice) {
    const int slots = wishes.total - left;
    return UsageError(wishes.total_given->quoted() + ": the hosts have " + plural(slots, "slot") + " (" +
                      list_slots(hosts, loads) + "); " + advice);
  };
  if (left == 0) return;
  if (wishes.per_node_given) throw error("ask for fewer workers, or raise " + wishes.per_node_given->source);
  if (!wishes.oversubscribe)
    throw error("ask for fewer workers, write more slots (HOST:SLOTS), or give --oversubscribe");
  // Workers that do not fit go to all hosts in turn, as far as max-slots lets them; --map-by node deals all
  // workers out like that.
  if (wishes.map_by == MapBy::node)
    for (Load& load : loads) load.workers = 0;
  const int unplaced = wishes.map_by == MapBy::node ? wishes.total : left;
  const int rest = fill(loads, unplaced, MapBy::node, [](const Load& load) { return load.most; });
  if (rest > 0) throw error("their max-slots do not allow so many; ask for fewer workers");
}

/// Refuses a number of slots for a host whose workers are counted on that host.
void check_word(const std::vector<Host>& hosts, const PlacementWishes& wishes) {
  if (wishes.per_node_word.empty()) return;
  const std::string quoted = wishes.per_node_given ? wishes.per_node_given->quoted() : wishes.per_node_word;
  if (wishes.total_given)
    throw UsageError(
        wishes.total_given->quoted() + " and " + quoted +
        " contradict each other, since hosts count for themselves; give --nproc-per-node a number");
  for (const Host& host : hosts)
    if (host.slots > 0 && host.gpus.empty())
      throw UsageError(quoted + " counts on each host, but host '" + host.name + "' (" + host.place +
                       ") is given " + plural(host.slots, "slot") + "; leave one of them out");
}

NodePlan plan_of(const Host& host, const std::string& name) {
  NodePlan plan;
  plan.name = name;
  plan.user = host.user;
  plan.ssh_target = host.name;
  plan.ssh_port = host.port;
  plan.slots = host.slots;
  plan.gpus = host.gpus;
  return plan;
}

}  // namespace

int gpu_of(const NodePlan& node, int local_rank) {
  if (node.gpus.empty()) return local_rank;
  return node.gpus[static_cast<std::size_t>(local_rank) % node.gpus.size()];
}

std::vector<NodePlan> place_workers(const std::vector<Host>& hosts, const PlacementWishes& wishes) {
  check_word(hosts, wishes);
  std::vector<Load> loads = loads_of(hosts, wishes);
  if (wishes.total_given)
    place_total(hosts, wishes, loads);
  else
    for (Load& load : loads) load.workers = load.slots;
  const std::vector<std::string> names = node_names(hosts);
  std::vector<NodePlan> plans;
  long next_rank = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (loads[i].workers == 0) continue;
    NodePlan plan = plan_of(hosts[i], names[i]);
    const bool counted_there = !wishes.per_node_word.empty() && hosts[i].slots == 0;
    if (counted_there) plan.workers_by = wishes.per_node_word;
    plan.workers = counted_there ? 0 : loads[i].workers;
    plan.first_rank = static_cast<int>(next_rank);
    next_rank = counted_there || next_rank < 0 ? -1 : next_rank + plan.workers;
    if (next_rank > kMaxWorkers)
      throw UsageError("the job has more than " + std::to_string(kMaxWorkers) + " workers; ask for fewer");
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace muster::launcher
