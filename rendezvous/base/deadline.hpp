// SPDX-License-Identifier: Apache-2.0
// The clock of all deadlines, and what is left of one, for calls that take a length of time.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace muster {

inline std::chrono::steady_clock::time_point steady_now() {
  return std::chrono::steady_clock::now();
}

/// The time until `deadline`, rounded up, so that no wait ends before it; 0 once it has passed.
inline std::chrono::milliseconds left_until(std::chrono::steady_clock::time_point deadline) {
  using std::chrono::milliseconds;
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(deadline - steady_now()));
}

/// The time until `deadline` as an argument of poll(), at most an hour; -1 without a deadline, so that poll()
/// waits for ever.
inline int poll_time(std::optional<std::chrono::steady_clock::time_point> deadline) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
  return deadline ? static_cast<int>(std::min(left_until(*deadline), kLongest).count()) : -1;
}

}  // namespace muster
