// SPDX-License-Identifier: Apache-2.0
// Gives a thread a connection to the store for as long as it makes one group; other threads may make groups
// as well.
#pragma once

#include "worker_sdk/comm/group_plan.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <chrono>
#include <memory>
#include <mutex>

namespace muster {

/// Makes a second connection to the store within `limit`. Throws Error: the one that `alarm` (may be null)
/// was rung with meanwhile, or store.
std::unique_ptr<StoreClient> connect_again(StoreClient& store, std::chrono::milliseconds limit,
                                           const JoinAlarm* alarm);

/// A connection to the store: the first thread uses the connection of the world, the others make connections
/// of their own.
class StoreLease {
 public:
  /// `store` may be null; it is in use while `mutex` is held. Making a new connection takes from the plan's
  /// time, and the plan's alarm also ends it; throws as connect_again().
  StoreLease(StoreClient* store, std::mutex& mutex, const GroupPlan& plan);

  StoreClient* get() const { return store_; }

  /// The plan, with the time that is left.
  const GroupPlan& plan() const { return plan_; }

 private:
  std::unique_lock<std::mutex> lock_;
  std::unique_ptr<StoreClient> own_;
  StoreClient* store_;
  GroupPlan plan_;
};

}  // namespace muster
