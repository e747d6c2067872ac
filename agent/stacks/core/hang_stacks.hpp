// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a job are that is hung, for the lines below the verdict: equal stacks once, the user's
// own lines only. Pure.
#pragma once

#include "agent/stacks/core/folded_stacks.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster::agent {

/// Ranks whose main threads are in the same lines of the user's own code.
struct HangStack {
  /// In ascending order, each once.
  std::vector<int> ranks;
  /// The innermost line first; the innermost one of a library where none is the user's.
  std::vector<Frame> frames;
  /// Whether outer lines are left out.
  bool truncated = false;

  bool operator==(const HangStack&) const = default;
};

inline constexpr std::size_t kHangStacksMax = 8;
inline constexpr std::size_t kHangFramesMax = 6;

/// Folds the stacks of main threads, the one of the lowest rank first: at most kHangStacksMax of at most
/// kHangFramesMax lines each, whose names are cut.
std::vector<HangStack> hang_stacks(const std::vector<RankPicture>& pictures);

/// Adds those of other ranks, of another node for instance, to `stacks`.
void merge_hang_stacks(std::vector<HangStack>& stacks, const std::vector<HangStack>& more);

/// Returns a line for each of the first kHangStacksMax: "ranks 0, 2, 3: train.py:41 step <- train.py:80
/// main". Safe to print.
std::vector<std::string> hang_stack_lines(const std::vector<HangStack>& stacks);

}  // namespace muster::agent
