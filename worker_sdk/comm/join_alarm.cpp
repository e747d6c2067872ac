// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/join_alarm.hpp"

#include "worker_sdk/store/store_client.hpp"

namespace muster {

void JoinAlarm::ring(ErrorCode code, const std::string& text) noexcept {
  const std::lock_guard lock(mutex_);
  if (error_) return;
  error_.emplace(code, text);
  wake_up_.signal();
}

void JoinAlarm::check() const {
  const std::lock_guard lock(mutex_);
  if (error_) throw Error(*error_);
}

void wait_for_key(StoreClient& store, const std::string& key, std::chrono::milliseconds limit,
                  const JoinAlarm* alarm) {
  if (alarm == nullptr || alarm->descriptor() < 0) return store.wait({key}, limit);
  if (store.wait_or_wake({key}, alarm->descriptor(), limit)) return;
  alarm->check();
  throw Error(ErrorCode::deadline, "waited " + std::to_string(limit.count()) + " ms for the key '" + key +
                                       "', which no rank has set; a rank is late or gone");
}

}  // namespace muster
