// SPDX-License-Identifier: Apache-2.0
// The delays between a store client's attempts to connect.
#pragma once

#include <algorithm>
#include <chrono>

namespace muster {

/// Delays between attempts to connect: 0.5 s, then x1.5 each time up to 60 s (or other bounds), each moved by
/// up to 50 % either way so that many ranks do not connect at once (the figures of PyTorch's client). Pure:
/// the random number is an argument.
class Backoff {
 public:
  using Duration = std::chrono::duration<double>;

  explicit Backoff(Duration first = Duration(kStartSeconds), Duration longest = Duration(kCapSeconds))
      : base_(first), longest_(longest) {}

  /// The next delay; `uniform` is a random number in [0, 1).
  Duration next(double uniform) {
    const Duration delay = base_ * (0.5 + uniform);
    base_ = std::min(base_ * 1.5, longest_);
    return std::min(delay, longest_);
  }

 private:
  static constexpr double kStartSeconds = 0.5;
  static constexpr double kCapSeconds = 60;
  Duration base_;
  Duration longest_;
};

}  // namespace muster
