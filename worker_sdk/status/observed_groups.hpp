// SPDX-License-Identifier: Apache-2.0
// Watches the groups of a world: records their calls, and ends them if a peer is lost.
#pragma once

#include "worker_sdk/comm/join_alarm.hpp"
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/fault/fault_plan.hpp"
#include "worker_sdk/status/status_writer.hpp"

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace muster::status {

/// The groups of one world that are alive or being made, so that those who watch peers can end the groups'
/// calls. Any thread.
class LiveGroups {
  struct Group {
    Backend* backend;  ///< null while the group is being made
    std::shared_ptr<JoinAlarm> alarm;
    std::uint64_t name_hash;
    std::vector<int> members;  ///< empty: all ranks of the world
  };

 public:
  /// Keeps a group known for as long as it lives. `backend` is null while the group is made; then the plan's
  /// alarm can end the making.
  class Registration {
   public:
    Registration(std::shared_ptr<LiveGroups> live, const GroupPlan& plan, Backend* backend);
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    std::shared_ptr<LiveGroups> live_;
    std::list<Group>::iterator place_;
  };

  /// Aborts the group of this name (hash_of()), or rings the alarm of its making.
  void abort(std::uint64_t name_hash, ErrorCode code, const std::string& text);

  /// Whether a rank of the world is in the group of this name.
  bool has_member(std::uint64_t name_hash, int world_rank);

 private:
  std::mutex mutex_;
  std::list<Group> groups_;
};

/// The objects that the groups of one world share. The pointers may be null.
struct Watchers {
  std::unique_ptr<StatusWriter> writer;
  std::unique_ptr<fault::Injector> injector;
  bool has_agent = false;
  LiveGroups live;
};

/// Makes the groups that `inner` makes, and tells the watchers of them. Threads as for GroupFactory.
class ObservedFactory : public GroupFactory {
 public:
  ObservedFactory(std::shared_ptr<GroupFactory> inner, std::shared_ptr<Watchers> watchers);
  ~ObservedFactory() override;

  std::unique_ptr<Backend> make(const GroupPlan& plan) override;
  std::shared_ptr<CallObserver> observer(const GroupPlan& plan) override;
  std::shared_ptr<void> registration(const GroupPlan& plan, Backend& backend) override;

 private:
  std::unique_ptr<GroupWriter> open(const GroupPlan& plan);
  void keep(const GroupPlan& plan, std::unique_ptr<GroupWriter> group);

  /// The live groups, which exist as long as the watchers.
  std::shared_ptr<LiveGroups> live() const { return {watchers_, &watchers_->live}; }

  std::shared_ptr<GroupFactory> inner_;
  std::shared_ptr<Watchers> watchers_;
  std::atomic<bool> first_{true};
  std::mutex mutex_;
  /// The records of groups that were made and not yet asked for by observer(). Protected by mutex_.
  std::map<std::string, std::unique_ptr<GroupWriter>> joined_;
};

}  // namespace muster::status
