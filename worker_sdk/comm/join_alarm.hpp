// SPDX-License-Identifier: Apache-2.0
// Ends the making of a group before its time: a rank that is waited for at the store can have died.
#pragma once

#include "muster/error.hpp"
#include "rendezvous/base/wake_up.hpp"

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

namespace muster {

class StoreClient;

/// Ends the making of one group. Any thread.
class JoinAlarm {
 public:
  /// The present and every later wait_for_key() throws this. The first one counts.
  void ring(ErrorCode code, const std::string& text) noexcept;

  /// Throws what it was rung with, if it was.
  void check() const;

  /// Readable once it was rung; -1 where no descriptor was to be had: then waits keep their deadline only.
  int descriptor() const { return wake_up_.fd(); }

 private:
  WakeUp wake_up_;
  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

/// Waits for the key, at most `limit`. Throws what the alarm was rung with, or Error (deadline) that names
/// the key. `alarm` may be null.
void wait_for_key(StoreClient& store, const std::string& key, std::chrono::milliseconds limit,
                  const JoinAlarm* alarm);

}  // namespace muster
