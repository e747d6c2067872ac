// SPDX-License-Identifier: Apache-2.0
// Decides how many workers each host gets, and their ranks. Pure: the same hosts and wishes give the same
// placement, also after a restart.
#pragma once

#include "launcher/core/node_plan.hpp"
#include "launcher/hosts/host_list.hpp"

#include <optional>
#include <vector>

namespace muster::launcher {

enum class MapBy {
  slot,  ///< fill a host before the next one
  node,  ///< one worker on each host in turn, until all have been given out
};

struct PlacementWishes {
  /// --np: workers of all hosts together. Nothing: all slots.
  std::optional<GivenText> total_given;
  int total = 0;
  /// --nproc-per-node as a number; nothing given: 1 on hosts without slots.
  std::optional<GivenText> per_node_given;
  int per_node = 1;
  /// --nproc-per-node as "gpu", "cpu" or "auto": each host counts its own.
  std::string per_node_word;
  bool oversubscribe = false;
  MapBy map_by = MapBy::slot;
};

/// Returns one plan for each host that gets a worker, in the order of `hosts`. Whatever --map-by says, the
/// ranks of a node are contiguous and ascend with the nodes. More workers than slots need `oversubscribe`;
/// then all hosts get an equal share (MapBy::node: of all, MapBy::slot: of those that do not fit), the first
/// ones one more. Throws UsageError.
std::vector<NodePlan> place_workers(const std::vector<Host>& hosts, const PlacementWishes& wishes);

/// Returns the GPU of a worker by torchrun's convention: its local rank, among those that its node was given.
int gpu_of(const NodePlan& node, int local_rank);

}  // namespace muster::launcher
