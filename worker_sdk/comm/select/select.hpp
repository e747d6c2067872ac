// SPDX-License-Identifier: Apache-2.0
// Chooses the backend that carries the groups of a world, and gives the factory that makes them.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <functional>
#include <memory>
#include <string>

namespace muster {

struct SelectOptions {
  /// The backend: "auto" (or ""), "shm", "gloo", "mpi", "nccl" or "hierarchical".
  std::string backend = "auto";
  int rank = 0;
  int size = 1;
  /// The number among the ranks of this host, and the device to use, unless `device` (not -1) names another.
  int local_rank = 0;
  int device = -1;
  /// The name of this host. Without `node`, ranks with equal names count as being on one host.
  /// MUSTER_HOST_NAME overrides both (for tests, where one machine plays several).
  std::string host;
  /// The launcher's number for this node (GROUP_RANK); -1: it gave none. Ranks with equal numbers count as
  /// being on one host: the agents know, while names and boot ids may be the same in containers of one
  /// machine.
  int node = -1;
  /// Whether the program gives memory of the host to its calls, so that "auto" is not nccl.
  bool host_memory = false;
  /// The network interface for gloo and nccl; "": MUSTER_SOCKET_IFNAME, or else the one by which this host
  /// reaches the store.
  std::string interface_name;
  /// The options of the world group, which split() groups inherit. `timeout` also bounds the joining of a
  /// group.
  ProcessGroupOptions group;
  /// Throws Error if a rank will not come to agree on the backend; may be empty.
  std::function<void()> look_for_lost;
};

/// Makes the factory for the groups of one world. All ranks call it alike; they agree on the backend through
/// the store, and rank 0 writes on stderr, in one line, which was picked and why. `store` may be null in a
/// world of one rank and must outlive the factory; it is used only while groups are made. Throws Error
/// (unsupported) on every rank when the backend is not installed on one of them, and (invalid_argument) for
/// an unknown name.
std::shared_ptr<GroupFactory> make_group_factory(StoreClient* store, const SelectOptions& options);

/// Makes the group of all ranks.
std::unique_ptr<ProcessGroup> make_world_group(const std::shared_ptr<GroupFactory>& factory,
                                               const SelectOptions& options);

}  // namespace muster
