// SPDX-License-Identifier: Apache-2.0
// Which backend carries the groups of a world, and the factory that makes them.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <functional>
#include <memory>
#include <string>

namespace muster {

struct SelectOptions {
  /// "auto" (or ""), "shm", "gloo", "mpi", "nccl" or "hierarchical".
  std::string backend = "auto";
  int rank = 0;
  int size = 1;
  /// Among the ranks of this host; the device to use, unless `device` (not -1) says another.
  int local_rank = 0;
  int device = -1;
  /// Name of this host. Without `node`, ranks with equal names are taken to be on one host.
  /// MUSTER_HOST_NAME overrides both (for tests: one machine plays several).
  std::string host;
  /// The launcher's number for this node (GROUP_RANK); -1: it gave none. Ranks with equal numbers are taken
  /// to be on one host: the agents know, while names and boot ids are the same in containers of one machine.
  int node = -1;
  /// The program gives memory of the host to its calls, so "auto" is not nccl.
  bool host_memory = false;
  /// Network interface for gloo and nccl; "": MUSTER_SOCKET_IFNAME, else found by the way to the store.
  std::string interface_name;
  /// Options of the world group, which split() groups inherit. `timeout` also bounds the joining of a group.
  ProcessGroupOptions group;
  /// Throws Error where a rank will not come to agree on the backend; may be empty.
  std::function<void()> look_for_lost;
};

/// Makes the groups of one world. All ranks call it alike; they agree on the backend through the store, and
/// rank 0 says on stderr, in one line, what was picked and why. `store` may be null in a world of one and
/// must outlive the factory; it is used only while groups are made. Throws Error (unsupported) on every rank
/// when the backend is not installed on one of them, and (invalid_argument) for an unknown name.
std::shared_ptr<GroupFactory> make_group_factory(StoreClient* store, const SelectOptions& options);

/// The group of all ranks.
std::unique_ptr<ProcessGroup> make_world_group(const std::shared_ptr<GroupFactory>& factory,
                                               const SelectOptions& options);

}  // namespace muster
