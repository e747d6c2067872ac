// SPDX-License-Identifier: Apache-2.0
// Reads the stacks of all threads of one CPython interpreter out of memory that anybody may have written.
#pragma once

#include "agent/stacks/core/memory_reader.hpp"
#include "agent/stacks/core/process_stacks.hpp"
#include "agent/stacks/core/python_layout.hpp"

#include <cstdint>
#include <vector>

namespace muster::agent {

/// Where an interpreter is in a process.
struct PythonRuntime {
  /// Address of _PyRuntime.
  std::uint64_t runtime = 0;
  /// Address of PyCode_Type; 0: not known.
  std::uint64_t code_type = 0;
  /// PY_VERSION_HEX; lower 16 bits 0 where only major and minor version are known.
  unsigned version_hex = 0;
};

/// Most threads of a process, and most frames of all of them together, that are read.
inline constexpr std::size_t kThreadsMax = 512;
inline constexpr std::size_t kProcessFramesMax = 2048;

/// Finds the layout of the interpreter's version, from the table or, from 3.13 on, from its own words. On
/// failure `version` of the result is 0, and `error` says why.
PythonLayout find_layout(MemoryReader& memory, const PythonRuntime& runtime, std::string& error);

/// Reads every thread of every interpreter of process `pid`. `tasks` holds the numbers of its threads as the
/// kernel has them, in any order: a thread whose number is not among them has none. Whatever is in the
/// memory, the result is bounded and the time is that of `memory`; what does not make sense is left out, and
/// `error` says so.
ProcessStacks read_python_stacks(MemoryReader& memory, const PythonLayout& layout,
                                 const PythonRuntime& runtime, int pid, const std::vector<int>& tasks);

}  // namespace muster::agent
