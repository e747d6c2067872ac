// SPDX-License-Identifier: Apache-2.0
// The store, for as long as one group is made: other threads may be making groups as well.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <chrono>
#include <memory>
#include <mutex>

namespace muster {

/// A second connection to the store, made within `limit`. Throws Error: what `alarm` (may be null) was rung
/// with meanwhile, or store.
std::unique_ptr<StoreClient> connect_again(StoreClient& store, std::chrono::milliseconds limit,
                                           const JoinAlarm* alarm);

/// The first thread has the connection of the world, the others make one of their own.
class StoreLease {
 public:
  /// `store` may be null; it is in use while `mutex` is held. A connection of its own takes from the plan's
  /// time, and the plan's alarm ends the making of it, too; throws as connect_again().
  StoreLease(StoreClient* store, std::mutex& mutex, const GroupPlan& plan);

  StoreClient* get() const { return store_; }

  /// The plan, with the time that is left to it.
  const GroupPlan& plan() const { return plan_; }

 private:
  std::unique_lock<std::mutex> lock_;
  std::unique_ptr<StoreClient> own_;
  StoreClient* store_;
  GroupPlan plan_;
};

}  // namespace muster
