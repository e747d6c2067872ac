// SPDX-License-Identifier: Apache-2.0
// Makes the shared-memory group of the ranks of one host.
#pragma once

#include "worker_sdk/comm/group_plan.hpp"
#include "worker_sdk/comm/shm/memory.hpp"

#include <memory>
#include <span>

namespace muster {
class StoreClient;
}

namespace muster::shm {

/// The most ranks of a group, more than any host has cores. It bounds the memory that a wrong size can ask
/// for (11 GB of address space; 0.9 GB with 256 ranks).
constexpr int kMaxRanks = 1024;

/// Makes the shared-memory backend of one rank; every rank of the plan calls it and must be on this host.
/// `store` may be null for one rank. Tries `kinds` of memory in order, the same on all ranks. Fails when a
/// rank is missing after the plan's timeout, naming the missing ranks.
std::unique_ptr<Backend> join_shm(StoreClient* store, const GroupPlan& plan,
                                  std::span<const MemoryLocation::Kind> kinds);
std::unique_ptr<Backend> join_shm(StoreClient* store, const GroupPlan& plan);

}  // namespace muster::shm
