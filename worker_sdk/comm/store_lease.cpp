// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/store_lease.hpp"

#include "worker_sdk/comm/join_alarm.hpp"

#include <algorithm>

namespace muster {

std::unique_ptr<StoreClient> connect_again(StoreClient& store, std::chrono::milliseconds limit,
                                           const JoinAlarm* alarm) {
  try {
    return store.clone_within(limit, alarm == nullptr ? -1 : alarm->descriptor());
  } catch (const Error&) {
    if (alarm != nullptr) alarm->check();
    throw;
  }
}

StoreLease::StoreLease(StoreClient* store, std::mutex& mutex, const GroupPlan& plan)
    : lock_(mutex, std::try_to_lock), store_(store), plan_(plan) {
  using Clock = std::chrono::steady_clock;
  if (lock_ || store == nullptr) return;
  const auto end = Clock::now() + plan.options.join_limit();
  own_ = connect_again(*store, plan.options.join_limit(), plan.alarm.get());
  store_ = own_.get();
  // A limit of 0 would mean the time of a call.
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  plan_.options.join_timeout = std::max(left, std::chrono::milliseconds(1));
}

}  // namespace muster
