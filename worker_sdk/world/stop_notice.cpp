// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/stop_notice.hpp"

#include <unistd.h>

#include <cstdlib>

namespace muster {

std::string StopNotice::path_in_environment() {
  const char* const path = std::getenv("MUSTER_STOP_FILE");
  return path == nullptr ? "" : path;
}

bool StopNotice::seen(std::chrono::steady_clock::time_point now) {
  if (path_.empty()) return false;
  if (seen_.load(std::memory_order_relaxed)) return true;
  Ticks next = next_look_.load(std::memory_order_relaxed);
  if (now.time_since_epoch().count() < next) return false;
  const Ticks after = (now + kLookInterval).time_since_epoch().count();
  // Of threads that come at the same time one looks.
  if (!next_look_.compare_exchange_strong(next, after, std::memory_order_relaxed)) return false;
  if (::access(path_.c_str(), F_OK) != 0) return false;
  seen_.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace muster
