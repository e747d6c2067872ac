// SPDX-License-Identifier: Apache-2.0
// Ends the making of a group early, because a rank that others wait for at the store may have died.
#pragma once

#include "muster/error.hpp"
#include "rendezvous/base/wake_up.hpp"

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

namespace muster {

class StoreClient;

/// The alarm for the making of one group. Any thread.
class JoinAlarm {
 public:
  /// Makes the present and every later wait_for_key() throw this error. The first error counts.
  void ring(ErrorCode code, const std::string& text) noexcept;

  /// Throws the error that the alarm was rung with, if it was rung.
  void check() const;

  /// The descriptor that is readable once the alarm was rung; -1 if none was available: then waits end only
  /// by their deadline.
  int descriptor() const { return wake_up_.fd(); }

 private:
  WakeUp wake_up_;
  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

/// Waits for the key, at most `limit`. Throws the error that the alarm was rung with, or Error (deadline)
/// that names the key. `alarm` may be null.
void wait_for_key(StoreClient& store, const std::string& key, std::chrono::milliseconds limit,
                  const JoinAlarm* alarm);

}  // namespace muster
