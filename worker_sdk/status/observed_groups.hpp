// SPDX-License-Identifier: Apache-2.0
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

/// The groups of one world that are alive or being made: those who watch peers end their calls. Any thread.
class LiveGroups {
  struct Group {
    Backend* backend;  ///< null while it is being made
    std::shared_ptr<JoinAlarm> alarm;
    std::uint64_t name_hash;
    std::vector<int> members;  ///< empty: all ranks of the world
  };

 public:
  /// A group is known for as long as this lives. `backend` is null while it is made, by the plan's alarm
  /// then.
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

  /// abort() for the group of this name (hash_of()), or the alarm of its making.
  void abort(std::uint64_t name_hash, ErrorCode code, const std::string& text);

  /// Whether the rank of the world is in the group of this name.
  bool has_member(std::uint64_t name_hash, int world_rank);

 private:
  std::mutex mutex_;
  std::list<Group> groups_;
};

/// What the groups of one world share. The pointers may be null.
struct Watchers {
  std::unique_ptr<StatusWriter> writer;
  std::unique_ptr<fault::Injector> injector;
  bool has_agent = false;
  LiveGroups live;
};

/// Makes what `inner` makes, and tells the watchers of it. As GroupFactory.
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

  /// They live as long as the watchers.
  std::shared_ptr<LiveGroups> live() const { return {watchers_, &watchers_->live}; }

  std::shared_ptr<GroupFactory> inner_;
  std::shared_ptr<Watchers> watchers_;
  std::atomic<bool> first_{true};
  std::mutex mutex_;
  /// Made, and not yet asked for by observer(). Behind mutex_.
  std::map<std::string, std::unique_ptr<GroupWriter>> joined_;
};

}  // namespace muster::status
