// SPDX-License-Identifier: Apache-2.0
// Reads the stacks of a process's machine code.
#pragma once

#include "agent/stacks/core/process_stacks.hpp"
#include "agent/stacks/process_memory.hpp"

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace muster::agent {

/// Most threads of a process that are read, and bytes of each one's stack and of all of them that are copied.
inline constexpr std::size_t kNativeThreadsMax = 256;
inline constexpr std::size_t kStackBytesMax = std::size_t{256} << 10;
inline constexpr std::size_t kStacksBytesMax = std::size_t{16} << 20;
/// How long a thread is stopped at most, and how long a process is read.
inline constexpr std::chrono::milliseconds kThreadStopMax{100};
inline constexpr std::chrono::milliseconds kNativeProcessMax{2000};

/// Stops each thread of the process, one after the other, copies its registers and stack and lets it go on;
/// then finds the calls in the copies, in a process of its own. `started` is the process's start time
/// (ProcessStat): if another one has its number meanwhile, nothing is read. `show` is told what is known so
/// far, first without source lines; the last call has everything that was found by the deadline. The caller
/// must be allowed to (ptrace(2)) and runs this on a thread of its own: it waits as long as the kernel makes
/// it wait for the process's files, whatever the deadline says, while all threads of the process go on.
/// Throws nothing but std::bad_alloc.
void read_native_stacks(pid_t pid, std::uint64_t started, StackDeadline deadline,
                        const std::function<void(NativeStacks)>& show);

}  // namespace muster::agent
