// SPDX-License-Identifier: Apache-2.0
// Whether the job, or this node's round of it, was told to end: the worker's side of MUSTER_STOP_FILE.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

namespace muster {

/// Any thread.
class StopNotice {
 public:
  /// Looks for the file at `path`; an empty one never appears.
  explicit StopNotice(std::string path) : path_(std::move(path)) {}

  /// Returns MUSTER_STOP_FILE; empty where no agent has set it.
  static std::string path_in_environment();

  /// Whether the file has appeared. It costs reading a clock, and once in kLookInterval a system call. What
  /// was seen once stays true.
  bool seen(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());

  static constexpr std::chrono::milliseconds kLookInterval{100};

 private:
  using Ticks = std::chrono::steady_clock::rep;

  const std::string path_;
  std::atomic<bool> seen_{false};
  std::atomic<Ticks> next_look_{std::chrono::steady_clock::time_point::min().time_since_epoch().count()};
};

}  // namespace muster
