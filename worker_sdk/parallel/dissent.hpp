// SPDX-License-Identifier: Apache-2.0
// Which ranks hold a value that they should not. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster::parallel {

struct Dissent {
  /// The ranks that differ: from the value of most ranks, or all of them where no value has a majority.
  std::vector<int> ranks;
  bool has_majority = true;
};

/// Finds the ranks that differ in `values`, which has one value of each rank.
Dissent find_dissent(std::span<const std::int64_t> values);

/// "rank 3 differs from that of the other ranks", or "ranks 0, 1 differ and none has a majority (rank 0:
/// 00ab..., rank 1: ...)".
std::string describe(const Dissent& dissent, std::span<const std::int64_t> values);

}  // namespace muster::parallel
