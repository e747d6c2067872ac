// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/join_alarm.hpp"

#include "worker_sdk/store/store_client.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace muster {

JoinAlarm::JoinAlarm() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

JoinAlarm::~JoinAlarm() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void JoinAlarm::ring(ErrorCode code, const std::string& text) noexcept {
  const std::lock_guard lock(mutex_);
  if (error_) return;
  error_.emplace(code, text);
  const std::uint64_t one = 1;
  while (descriptor_ >= 0 && ::write(descriptor_, &one, sizeof one) < 0 && errno == EINTR) {
  }
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
