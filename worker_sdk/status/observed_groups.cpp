// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/status/observed_groups.hpp"

#include <algorithm>
#include <utility>

namespace muster::status {
namespace {

/// Writes the calls of one group down, and lets the injected faults happen.
class Observer : public CallObserver {
 public:
  Observer(std::shared_ptr<Watchers> watchers, std::unique_ptr<GroupWriter> group)
      : watchers_(std::move(watchers)), group_(std::move(group)) {}

  ~Observer() override {
    if (group_) watchers_->writer->close_group(*group_);
  }

  void entering(const Call& call) override {
    // Only a fault that strikes later finds the call entered.
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

/// Passes everything on; known as alive between its making and its end.
class WatchedBackend : public Backend {
 public:
  WatchedBackend(std::unique_ptr<Backend> inner, std::shared_ptr<Watchers> watchers, const GroupPlan& plan)
      : watchers_(std::move(watchers)), inner_(std::move(inner)) {
    watchers_->live.add(*inner_, plan);
  }

  ~WatchedBackend() override { watchers_->live.remove(*inner_); }

  std::string_view name() const override { return inner_->name(); }

  void run(std::span<const Operation> batch) override { inner_->run(batch); }

  bool is_device() const override { return inner_->is_device(); }

  std::unique_ptr<Completion> last_run() override { return inner_->last_run(); }

  void* allocate(const Call& call) override { return inner_->allocate(call); }

  void abort(ErrorCode code, const std::string& text) noexcept override { inner_->abort(code, text); }

 private:
  std::shared_ptr<Watchers> watchers_;
  std::unique_ptr<Backend> inner_;
};

/// Lets the thread that watches peers end the making of a group, as long as this lives.
class Joining {
 public:
  Joining(LiveGroups& live, const GroupPlan& plan) : live_(live), plan_(plan) { live_.add_joining(plan_); }

  ~Joining() { live_.remove_joining(plan_); }

  Joining(const Joining&) = delete;
  Joining& operator=(const Joining&) = delete;

 private:
  LiveGroups& live_;
  const GroupPlan& plan_;
};

}  // namespace

void LiveGroups::add(Backend& backend, const GroupPlan& plan) {
  const std::lock_guard lock(mutex_);
  groups_.push_back({&backend, nullptr, hash_of(plan.options.name), plan.members});
}

void LiveGroups::add_joining(const GroupPlan& plan) {
  const std::lock_guard lock(mutex_);
  groups_.push_back({nullptr, plan.alarm, hash_of(plan.options.name), plan.members});
}

void LiveGroups::remove_joining(const GroupPlan& plan) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [&plan](const Group& group) { return group.alarm && group.alarm == plan.alarm; });
}

void LiveGroups::remove(Backend& backend) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [&backend](const Group& group) { return group.backend == &backend; });
}

void LiveGroups::abort(std::uint64_t name_hash, ErrorCode code, const std::string& text) {
  const std::lock_guard lock(mutex_);
  for (const Group& group : groups_) {
    if (group.name_hash != name_hash) continue;
    if (group.alarm)
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
  const auto point = std::exchange(first_, false) ? fault::Point::init : fault::Point::split;
  if (watchers_->injector) watchers_->injector->at(fault::point_of(point));
  auto group = open(plan);
  std::unique_ptr<Backend> backend;
  GroupPlan quiet = plan;
  // The agent says it once for all ranks, and knows more.
  if (watchers_->has_agent) quiet.options.report_after = std::chrono::milliseconds(0);
  quiet.alarm = std::make_shared<JoinAlarm>();
  try {
    const Joining joining(watchers_->live, quiet);
    backend = inner_->make(quiet);
  } catch (const Error& error) {
    // The record stays for those who look after the failure; it goes with the factory.
    if (group) {
      group->failed(nullptr, error.code());
      joined_[plan.options.name] = std::move(group);
    }
    throw;
  }
  if (group) {
    group->joined();
    joined_[plan.options.name] = std::move(group);
  }
  return std::make_unique<WatchedBackend>(std::move(backend), watchers_, plan);
}

std::shared_ptr<CallObserver> ObservedFactory::observer(const GroupPlan& plan) {
  auto joined = joined_.extract(plan.options.name);
  std::unique_ptr<GroupWriter> group;
  if (joined) group = std::move(joined.mapped());
  return std::make_shared<Observer>(watchers_, std::move(group));
}

}  // namespace muster::status
