// SPDX-License-Identifier: Apache-2.0
// A Backend whose work is done by a plug-in.
#pragma once

#include "worker_sdk/comm/backend.hpp"
#include "worker_sdk/comm/group_plan.hpp"
#include "worker_sdk/comm/plugin/failure_channel.hpp"
#include "worker_sdk/comm/plugin/table.hpp"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace muster::plugin {

/// The facts that a plug-in needs beyond the plan.
struct Surroundings {
  int local_rank = 0;
  int device = -1;
  /// The host name of each rank of the group.
  std::vector<std::string> hosts = {};
  /// The network interface to use; "": the one of `address`.
  std::string interface_name = {};
  /// The address of this host for the other hosts; "": the one by which this host reaches the store.
  std::string address = {};
  /// The key of a counter in the store. The first rank draws the group's number from it, which the plug-in
  /// finds at kNumberKey; "": the plug-in needs no number.
  std::string counter = {};
};

/// The name of a group in the failure channel, which is also the prefix of its keys: unique in the world, the
/// same on all ranks of the group.
struct GroupKey {
  std::string text;
};

class PluginBackend final : public Backend, private FailureListener {
 public:
  /// Makes the group; all ranks of the plan call it alike. `store` is used only during this call.
  PluginBackend(const std::string& name, const GroupPlan& plan, const GroupKey& key,
                const Surroundings& surroundings, StoreClient& store,
                std::shared_ptr<FailureChannel> channel);
  ~PluginBackend() override;

  std::string_view name() const override { return plugin_.name; }

  void run(std::span<const Operation> batch) override;

  bool is_device() const override { return plugin_.is_device != 0; }

  std::unique_ptr<Completion> last_run() override;
  void* allocate(const Call& call) override;
  Wire wire() const override;
  void launch(const std::function<void()>& work) override;
  void abort(ErrorCode code, const std::string& text) noexcept override;

  // The following functions are for a device backend in a group that has another backend beside it.

  /// Whether the program can touch `memory`. Any thread.
  bool is_host(const void* memory);

  /// Tells of a call that the other backend carries, so that the ranks compare it.
  void note(const Call& call) { plugin_.note(group_, &call); }

  /// Sets the function that is called when the group fails, on any rank, or at once if it has failed. The
  /// channel's thread calls it, and it must not delay that thread.
  void on_failure(std::function<void(const Error&)> told);

 private:
  class Token;
  struct HostSide;

  void group_failed(ErrorCode code, const std::string& text) noexcept override;
  void look(std::chrono::steady_clock::time_point now) noexcept override;
  void create(const GroupPlan& plan, const Surroundings& surroundings, StoreClient& store);
  std::optional<Error> failure();
  bool remember(ErrorCode code, const std::string& text);
  Error known_cause(const Error& error) const;
  void end_calls(const Error& error) noexcept;
  [[noreturn]] void fail(const Error& error);
  [[noreturn]] void throw_failure(std::unique_lock<std::mutex>& lock);

  const muster_plugin& plugin_;
  /// The number of this rank in texts (GroupPlan::shown_ranks).
  int rank_;
  std::string group_name_;
  std::chrono::milliseconds report_after_;
  std::string key_;
  std::shared_ptr<FailureChannel> channel_;
  muster_plugin_host host_;
  StoreClient* store_ = nullptr;           ///< while create() runs
  std::shared_ptr<JoinAlarm> join_alarm_;  ///< ends the waits of create()
  std::mutex side_mutex_;
  std::unique_ptr<StoreClient> side_store_;  ///< protected by side_mutex_
  void* group_ = nullptr;
  bool has_run_ = false;       ///< whether a collective has succeeded, so that all ranks have joined
  std::vector<void*> memory_;  ///< memory of allocate(), if the plug-in has none of its own

  std::mutex mutex_;  ///< protects the members that follow
  std::condition_variable told_;
  std::optional<Error> local_;   ///< the failure that this rank knew first
  std::optional<Error> agreed_;  ///< the failure that all ranks throw
  bool can_abort_ = false;       ///< whether the plug-in's group exists and abort() has not been called
  std::optional<std::chrono::steady_clock::time_point> entered_at_;  ///< set in run()
  bool reported_ = false;
  Call current_;
  std::function<void(const Error&)> on_failure_;
};

}  // namespace muster::plugin
