// SPDX-License-Identifier: Apache-2.0
// The Python stacks of a process, as they were read from outside. Value types.
#pragma once

#include <string>
#include <vector>

namespace muster::agent {

/// One call. Names are safe to print: what is no plain text is written as \xNN.
struct Frame {
  /// As the program knows it: "train.py", "/usr/lib/python3.11/threading.py", "<frozen
  /// importlib._bootstrap>".
  std::string file;
  /// The line that is being executed, from 1; 0: not known.
  int line = 0;
  /// With its class from Python 3.11 on: "Event.wait".
  std::string function;

  bool operator==(const Frame&) const = default;
};

struct ThreadStack {
  /// The kernel's number of the thread; 0: not known.
  int tid = 0;
  bool is_main = false;
  /// Whether the thread holds the interpreter's lock; false where the version does not tell (before 3.11).
  bool holds_gil = false;
  /// Whether the thread moved while it was read, so that its frames may belong to different moments.
  bool approximate = false;
  /// Whether further frames are left out, those of the outermost callers.
  bool truncated = false;
  /// The innermost call first.
  std::vector<Frame> frames;
};

struct ProcessStacks {
  int pid = 0;
  /// The interpreter's version: "3.11.2", "3.9" where it tells no more; empty if there is none.
  std::string python;
  /// The newest thread first, as the interpreter has them.
  std::vector<ThreadStack> threads;
  /// Why there are no stacks, or not all of them: "no Python", "it belongs to another user"; empty: all is
  /// there.
  std::string error;
  /// The library in which the main thread sleeps, besides the runtimes of C and C++: "libtorch_cpu.so"; the
  /// program's own name where it is that. Empty: it runs, or nothing tells. Not in JSON: it is a sign for the
  /// judgement, and no stack.
  std::string library{};
};

/// One process just before it was killed.
struct ProcessPicture {
  /// The name that the kernel shows: "python3".
  std::string name;
  /// What the main thread does for the kernel: "sleeping in the system call futex (futex_wait_queue)".
  std::string state;
  ProcessStacks stacks;
};

/// The error of a process in which no interpreter was found.
inline constexpr const char* kNoPython = "no Python";

}  // namespace muster::agent
