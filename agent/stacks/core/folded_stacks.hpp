// SPDX-License-Identifier: Apache-2.0
// Stacks of many ranks, for people: equal ones once, and the user's own line beside the library's.
#pragma once

#include "agent/stacks/core/process_stacks.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// A process of a rank. A rank may have several.
struct RankPicture {
  int rank = 0;
  const ProcessPicture* picture = nullptr;
};

/// Threads of several ranks that are in the same calls.
struct FoldedStack {
  /// In ascending order, each once.
  std::vector<int> ranks;
  /// The number of threads; more than ranks where a rank has several such threads.
  std::size_t threads = 0;
  bool is_main = false;
  /// Whether each of them held its interpreter's lock.
  bool holds_gil = true;
  /// Whether any of them moved while it was read.
  bool approximate = false;
  std::vector<Frame> frames;
  /// Whether outer callers are left out of `frames`.
  bool truncated = false;
};

/// Whether a file of a frame belongs to Python itself or an installed package, not to the user's program: one
/// in site-packages, dist-packages or lib/pythonX.Y, or code without a file ("<frozen ...>") but for what the
/// user typed ("<string>", "<stdin>").
bool is_library_file(std::string_view file);

/// Returns the place of the innermost frame of the user's own code; frames.size() if there is none.
std::size_t own_frame(const std::vector<Frame>& frames);

/// Returns "train.py:41 step": the file without its folders, or as it lies in its package.
std::string short_call(const Frame& frame);

/// Returns one phrase: the user's own line, what of a library it is in, and the user's lines that led there:
/// "train.py:41 step (in threading.py:331 Condition.wait) <- train.py:80 main". Empty for no frames.
std::string describe_calls(const std::vector<Frame>& frames);

/// Folds threads with the same calls; those without any are left out. Main threads come first, then those
/// that hold the lock, each in the order of their first rank.
std::vector<FoldedStack> fold_stacks(const std::vector<RankPicture>& pictures);

/// Describes the processes, at most `most` lines: "ranks 0-2, 5: train.py:41 step <- ...", then other
/// threads, then those whose stacks could not be read with the reason and what the kernel says of them. What
/// is left out is counted in a last line. Safe to print.
std::vector<std::string> stack_lines(const std::vector<RankPicture>& pictures, std::size_t most);

/// Returns what of a picture fits into about `bytes` of JSON: outer callers go first, those of threads that
/// are neither main nor hold the lock before all others; what is left out is marked as truncated.
ProcessPicture within(ProcessPicture picture, std::size_t bytes);

}  // namespace muster::agent
