// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/status/observed_groups.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::status {
namespace {

/// Records the calls of one group, and injects faults.
class Observer : public CallObserver {
 public:
  Observer(std::shared_ptr<Watchers> watchers, std::unique_ptr<GroupWriter> group)
      : watchers_(std::move(watchers)), group_(std::move(group)) {}

  ~Observer() override {
    if (group_) watchers_->writer->close_group(*group_);
  }

  void entering(const Call& call) override {
    // A fault that strikes at once finds the call not entered yet; only a later one finds it entered.
    if (watchers_->injector) watchers_->injector->at(fault::point_of(call.collective));
    if (group_) group_->entering(call);
  }

  void completed(const Call& call) override {
    if (group_) group_->completed(call);
  }

  void failed(const Call& call, const Error& error) noexcept override {
    if (group_) group_->failed(&call, error.code());
  }

 private:
  std::shared_ptr<Watchers> watchers_;
  std::unique_ptr<GroupWriter> group_;
};

}  // namespace

LiveGroups::Registration::Registration(std::shared_ptr<LiveGroups> live, const GroupPlan& plan,
                                       Backend* backend)
    : live_(std::move(live)) {
  const std::lock_guard lock(live_->mutex_);
  live_->groups_.push_back({backend, plan.alarm, hash_of(plan.options.name), plan.members});
  place_ = std::prev(live_->groups_.end());
}

LiveGroups::Registration::~Registration() {
  const std::lock_guard lock(live_->mutex_);
  live_->groups_.erase(place_);
}

void LiveGroups::abort(std::uint64_t name_hash, ErrorCode code, const std::string& text) {
  const std::lock_guard lock(mutex_);
  for (const Group& group : groups_) {
    if (group.name_hash != name_hash) continue;
    if (group.backend == nullptr)
      group.alarm->ring(code, text);
    else
      group.backend->abort(code, text);
  }
}

bool LiveGroups::has_member(std::uint64_t name_hash, int world_rank) {
  const std::lock_guard lock(mutex_);
  return std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) {
    return group.name_hash == name_hash &&
           (group.members.empty() ||
            std::find(group.members.begin(), group.members.end(), world_rank) != group.members.end());
  });
}

ObservedFactory::ObservedFactory(std::shared_ptr<GroupFactory> inner, std::shared_ptr<Watchers> watchers)
    : inner_(std::move(inner)), watchers_(std::move(watchers)) {}

ObservedFactory::~ObservedFactory() {
  for (const auto& [name, group] : joined_) watchers_->writer->close_group(*group);
}

std::unique_ptr<GroupWriter> ObservedFactory::open(const GroupPlan& plan) {
  if (!watchers_->writer) return nullptr;
  return watchers_->writer->open_group(plan.options.name, plan.rank, plan.size, plan.options.report_after);
}

std::unique_ptr<Backend> ObservedFactory::make(const GroupPlan& plan) {
  const auto point = first_.exchange(false) ? fault::Point::init : fault::Point::split;
  if (watchers_->injector) watchers_->injector->at(fault::point_of(point));
  auto group = open(plan);
  std::unique_ptr<Backend> backend;
  GroupPlan quiet = plan;
  // The agent reports long waits once for all ranks, and knows more than the group.
  if (watchers_->has_agent) quiet.options.report_after = std::chrono::milliseconds(0);
  quiet.alarm = std::make_shared<JoinAlarm>();
  try {
    const LiveGroups::Registration joining(live(), quiet, nullptr);
    backend = inner_->make(quiet);
  } catch (const Error& error) {
    // The record stays for those who look at it after the failure; it ends with the factory.
    if (group) group->failed(nullptr, error.code());
    keep(plan, std::move(group));
    throw;
  }
  if (group) group->joined();
  keep(plan, std::move(group));
  return backend;
}

void ObservedFactory::keep(const GroupPlan& plan, std::unique_ptr<GroupWriter> group) {
  if (!group) return;
  const std::lock_guard lock(mutex_);
  joined_[plan.options.name] = std::move(group);
}

std::shared_ptr<CallObserver> ObservedFactory::observer(const GroupPlan& plan) {
  std::unique_ptr<GroupWriter> group;
  {
    const std::lock_guard lock(mutex_);
    auto joined = joined_.extract(plan.options.name);
    if (joined) group = std::move(joined.mapped());
  }
  return std::make_shared<Observer>(watchers_, std::move(group));
}

std::shared_ptr<void> ObservedFactory::registration(const GroupPlan& plan, Backend& backend) {
  return std::make_shared<LiveGroups::Registration>(live(), plan, &backend);
}

}  // namespace muster::status
