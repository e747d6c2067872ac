// SPDX-License-Identifier: Apache-2.0
// The Python stacks of a process, as they were read from outside. Value types.
#pragma once

#include <cstdint>
#include <optional>
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

/// One call of machine code. Names are safe to print.
struct NativeFrame {
  /// Demangled; empty: no symbol is known.
  std::string function;
  /// The source file and the line, where the module holds them; empty and 0: it does not.
  std::string file;
  int line = 0;
  /// The file that holds the code, without its folders: "libc.so.6"; empty: none does.
  std::string module;
  /// Bytes behind the beginning of the module in memory; the address itself where there is none.
  std::uint64_t offset = 0;

  bool operator==(const NativeFrame&) const = default;
};

struct NativeThread {
  int tid = 0;
  /// As the kernel has it: "python3", "pt_autograd_0".
  std::string name;
  /// Whether further frames are left out, those of the outermost callers.
  bool truncated = false;
  /// Why there are no frames; empty: there are.
  std::string error;
  /// The innermost call first.
  std::vector<NativeFrame> frames;
};

/// The stacks of a process's machine code. Each thread was stopped while its registers and stack were copied.
struct NativeStacks {
  /// The main thread first.
  std::vector<NativeThread> threads;
  /// Why there are none, or not all of them; empty: all is there.
  std::string error;
  /// The longest time for which a thread was stopped, in microseconds.
  std::int64_t longest_stop_us = 0;
};

/// One process just before it was killed.
struct ProcessPicture {
  /// The name that the kernel shows: "python3".
  std::string name;
  /// What the main thread does for the kernel: "sleeping in the system call futex (futex_wait_queue)".
  std::string state;
  ProcessStacks stacks;
  /// nullopt: nobody has asked for it.
  std::optional<NativeStacks> native{};
};

/// The error of a process in which no interpreter was found, and of one that was not reached in time.
inline constexpr const char* kNoPython = "no Python";
inline constexpr const char* kNoTime = "there was no time for it";

}  // namespace muster::agent
