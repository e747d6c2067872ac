// SPDX-License-Identifier: Apache-2.0
// Stacks of machine code, for people: equal ones of many ranks once. Pure.
#pragma once

#include "agent/stacks/core/folded_stacks.hpp"
#include "agent/stacks/core/process_stacks.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster::agent {

/// Returns "#3  do_poll (libc.so.6+0x1a2b) at poll.c:29", safe to print.
std::string describe(const NativeFrame& frame, std::size_t number);

/// Describes the stacks of machine code that were asked for: first for how long threads were stopped, then at
/// most `most` stacks, those of main threads first, each under a line with its ranks; threads are in the same
/// stack if they are in the same functions. Then those without stacks, with the reason. None if nobody has
/// asked for such stacks. Safe to print.
std::vector<std::string> native_lines(const std::vector<RankPicture>& pictures, std::size_t most);

/// Returns what fits into about `bytes` of JSON: outer callers go first, then whole threads, the last one
/// first. What is left out is marked as truncated, or counted in `error`.
NativeStacks within(NativeStacks stacks, std::size_t bytes);

}  // namespace muster::agent
