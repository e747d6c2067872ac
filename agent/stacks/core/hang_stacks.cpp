// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/hang_stacks.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <utility>

namespace muster::agent {
namespace {

/// Bytes of a name that are kept; of a longer one the end, which tells more of a path.
constexpr std::size_t kNameBytes = 200;
constexpr std::size_t kRangesNamed = 8;

std::string shortened(const std::string& name) {
  return name.size() <= kNameBytes ? name : "..." + name.substr(name.size() - kNameBytes);
}

HangStack own_lines(const FoldedStack& folded) {
  HangStack stack{folded.ranks, {}, folded.truncated};
  for (const Frame& frame : folded.frames) {
    if (is_library_file(frame.file)) continue;
    stack.truncated = stack.truncated || stack.frames.size() == kHangFramesMax;
    if (stack.frames.size() < kHangFramesMax) stack.frames.push_back(frame);
  }
  if (stack.frames.empty()) stack.frames.push_back(folded.frames.front());
  for (Frame& frame : stack.frames) frame = {shortened(frame.file), frame.line, shortened(frame.function)};
  return stack;
}

}  // namespace

std::vector<HangStack> hang_stacks(const std::vector<RankPicture>& pictures) {
  std::vector<HangStack> stacks;
  for (const FoldedStack& folded : fold_stacks(pictures))
    if (folded.is_main) merge_hang_stacks(stacks, {own_lines(folded)});
  if (stacks.size() > kHangStacksMax) stacks.resize(kHangStacksMax);
  return stacks;
}

void merge_hang_stacks(std::vector<HangStack>& stacks, const std::vector<HangStack>& more) {
  for (const HangStack& one : more) {
    const auto same = std::find_if(stacks.begin(), stacks.end(), [&one](const HangStack& stack) {
      return stack.frames == one.frames && stack.truncated == one.truncated;
    });
    if (same == stacks.end()) {
      stacks.push_back(one);
      continue;
    }
    std::vector<int>& ranks = same->ranks;
    ranks.insert(ranks.end(), one.ranks.begin(), one.ranks.end());
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  }
  std::stable_sort(stacks.begin(), stacks.end(),
                   [](const HangStack& one, const HangStack& other) { return one.ranks < other.ranks; });
}

std::vector<std::string> hang_stack_lines(const std::vector<HangStack>& stacks) {
  std::vector<std::string> lines;
  for (const HangStack& stack : stacks) {
    if (lines.size() == kHangStacksMax) {
      lines.push_back("and " + std::to_string(stacks.size() - kHangStacksMax) + " more");
      break;
    }
    std::string line = (stack.ranks.size() == 1 ? "rank " : "ranks ") + rank_list(stack.ranks, kRangesNamed);
    for (std::size_t i = 0; i < stack.frames.size(); ++i)
      line += (i == 0 ? ": " : " <- ") + short_call(stack.frames[i]);
    lines.push_back(line + (stack.truncated ? " <- ..." : ""));
  }
  return lines;
}

}  // namespace muster::agent
