// SPDX-License-Identifier: Apache-2.0
// The time of day, for what people and files are told.
#pragma once

#include <chrono>
#include <cstdint>

namespace muster {

/// Returns the milliseconds since 1970, which a change of the clock may set back. Any thread.
inline std::int64_t wall_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace muster
