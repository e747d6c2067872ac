// SPDX-License-Identifier: Apache-2.0
// How many connections of strangers are held at once. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

namespace muster::rendezvous {

/// Counts the connections that have not proved yet who they are. From half of a limit on, a new one is
/// dropped by chance, the more likely the nearer the limit is (random early drop), so that a flood cannot
/// decide who gets in.
class ConnectionGate {
 public:
  struct Limits {
    std::size_t total = 0;
    std::size_t per_address = 0;
  };

  explicit ConnectionGate(Limits limits) : limits_(limits) {}

  /// Whether a connection from `address` (any text that stands for it) is taken; `chance` is a random number
  /// from 0 up to but not including 1. Each one taken is to leave() once.
  bool enter(std::string_view address, double chance);
  void leave(std::string_view address);

  std::size_t size() const { return size_; }

  /// Half of the limit is used: new ones may be dropped.
  bool crowded() const { return 2 * size_ >= limits_.total; }

 private:
  static double drop_share(std::size_t count, std::size_t limit);

  Limits limits_;
  std::size_t size_ = 0;
  std::unordered_map<std::string, std::size_t> by_address_;
};

}  // namespace muster::rendezvous
