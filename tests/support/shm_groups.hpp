// SPDX-License-Identifier: Apache-2.0
// Groups over shared memory without a world: of threads of one process, or of processes with a store.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/comm/shm/join.hpp"
#include "worker_sdk/comm/shm/shm_backend.hpp"
#include "worker_sdk/comm/store_lease.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace muster::shm {

/// A factory for ranks that are threads, which share it.
class ThreadFactory : public GroupFactory {
 public:
  std::unique_ptr<Backend> make(const GroupPlan& plan) override {
    const std::lock_guard lock(mutex_);
    Meeting& meeting = meetings_[plan.options.name];
    if (meeting.memory == nullptr) {
      meeting.memory = std::make_shared<ThreadMemory>();
      const Mapping control = meeting.memory->create(Layout::bytes_for(plan.size), meeting.location);
      Layout(control.base(), plan.size).construct();
    }
    auto backend = std::make_unique<ShmBackend>(meeting.memory, meeting.memory->open(meeting.location), plan);
    if (++meeting.arrived == plan.size) meetings_.erase(plan.options.name);
    return backend;
  }

 private:
  /// A group that not all of its ranks have made yet. Names are not used twice in a world.
  struct Meeting {
    std::shared_ptr<ThreadMemory> memory;
    MemoryLocation location;
    int arrived = 0;
  };

  std::mutex mutex_;
  std::map<std::string, Meeting> meetings_;
};

/// Makes groups with join_shm(). `store` may be null for worlds of one rank and must outlive the groups that
/// are to be split.
class StoreFactory : public GroupFactory {
 public:
  explicit StoreFactory(StoreClient* store) : store_(store) {}

  std::unique_ptr<Backend> make(const GroupPlan& plan) override {
    const StoreLease store(store_, store_mutex_, plan);
    return join_shm(store.get(), store.plan());
  }

 private:
  StoreClient* store_;
  std::mutex store_mutex_;
};

/// A world of `size` ranks for as many threads of this process, all made here; each is then used by its own
/// thread.
inline std::vector<std::unique_ptr<ProcessGroup>> make_thread_groups(
    int size, const ProcessGroupOptions& options = {}) {
  const auto factory = std::make_shared<ThreadFactory>();
  std::vector<std::unique_ptr<ProcessGroup>> groups;
  for (int rank = 0; rank < size; ++rank) {
    GroupPlan plan{rank, size, {}, options};
    auto backend = factory->make(plan);
    groups.push_back(std::make_unique<ProcessGroup>(std::move(backend), std::move(plan), factory));
  }
  return groups;
}

}  // namespace muster::shm

namespace muster {

/// A group of all ranks over shared memory. `store` as for StoreFactory.
inline std::unique_ptr<ProcessGroup> make_shm_process_group(StoreClient* store, int rank, int size,
                                                            const ProcessGroupOptions& options = {}) {
  GroupPlan plan{rank, size, {}, options};
  auto factory = std::make_shared<shm::StoreFactory>(store);
  auto backend = factory->make(plan);
  return std::make_unique<ProcessGroup>(std::move(backend), std::move(plan), std::move(factory));
}

}  // namespace muster
