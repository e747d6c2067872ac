// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/join_alarm.hpp"
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/fault/fault_plan.hpp"
#include "worker_sdk/status/status_writer.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace muster::status {

/// The groups of one world that are alive or being made: those who watch peers end their calls. Any thread.
class LiveGroups {
 public:
  void add(Backend& backend, const GroupPlan& plan);
  void remove(Backend& backend);

  /// The same while a group is made, by the plan's alarm.
  void add_joining(const GroupPlan& plan);
  void remove_joining(const GroupPlan& plan);

  /// abort() for the group of this name (hash_of()), or the alarm of its making.
  void abort(std::uint64_t name_hash, ErrorCode code, const std::string& text);

  /// Whether the rank of the world is in the group of this name.
  bool has_member(std::uint64_t name_hash, int world_rank);

 private:
  struct Group {
    Backend* backend = nullptr;        ///< null while it is being made
    std::shared_ptr<JoinAlarm> alarm;  ///< null afterwards
    std::uint64_t name_hash = 0;
    std::vector<int> members;  ///< empty: all ranks of the world
  };

  std::mutex mutex_;
  std::vector<Group> groups_;
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

 private:
  std::unique_ptr<GroupWriter> open(const GroupPlan& plan);

  std::shared_ptr<GroupFactory> inner_;
  std::shared_ptr<Watchers> watchers_;
  bool first_ = true;
  /// Made, and not yet asked for by observer().
  std::map<std::string, std::unique_ptr<GroupWriter>> joined_;
};

}  // namespace muster::status
