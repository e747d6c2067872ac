// SPDX-License-Identifier: Apache-2.0
// How long nodes are waited for that other hosts start.
#pragma once

#include "launcher/start/core/start_times.hpp"

#include <algorithm>
#include <chrono>

namespace muster::launcher {

/// Of the nodes that one login leads to. Whatever is said of them gives all of them more time, but not for
/// ever: a host may say anything. Pure.
class TrunkWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::milliseconds;

  /// `silence` is enough for any step of a start, `overall` for all of them.
  TrunkWatch(TimePoint now, Duration silence, Duration overall)
      : silence_(silence), silent_by_(now + silence), over_by_(now + overall) {}

  void progress(TimePoint now) { silent_by_ = std::max(silent_by_, now + silence_); }

  /// A piece of a copy is on its way.
  void copying(TimePoint now) { silent_by_ = std::max(silent_by_, now + kCopyLateAfter); }

  /// When those that have not answered are given up.
  TimePoint due() const { return given_up_ ? TimePoint::max() : std::min(silent_by_, over_by_); }

  void given_up() { given_up_ = true; }

 private:
  Duration silence_;
  TimePoint silent_by_;
  TimePoint over_by_;
  bool given_up_ = false;
};

}  // namespace muster::launcher
