// SPDX-License-Identifier: Apache-2.0
// When what a worker does may be the work of its flight recorder, which was asked what it has noted. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace muster::agent {

/// One worker's recorder. It works from the question until it has answered, and a moment longer: it logs and
/// closes what it has written. One that has not answered in time gets half the time between two questions.
class RecorderWork {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::milliseconds kEndsWithin{1000};

  /// `ask_each`: the time between two questions.
  explicit RecorderWork(std::chrono::milliseconds ask_each) : ask_each_(ask_each) {}

  void ask() { asked_ = true; }

  /// Nobody waits for the answer any more. Nothing, if it was not asked.
  void end_question(Time now, bool answered) {
    if (!asked_) return;
    asked_ = false;
    until_ = now + (answered ? std::min(kEndsWithin, ask_each_ / 2) : ask_each_ / 2);
  }

  /// Whether it may have worked after `time`.
  bool may_have_worked_after(Time time) const { return asked_ || (until_ && *until_ > time); }

 private:
  std::chrono::milliseconds ask_each_;
  bool asked_ = false;
  std::optional<Time> until_;
};

}  // namespace muster::agent
