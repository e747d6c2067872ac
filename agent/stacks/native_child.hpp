// SPDX-License-Identifier: Apache-2.0
// Finds calls in a process of its own, which a file that libdw cannot bear may end.
#pragma once

#include "agent/stacks/core/process_stacks.hpp"
#include "agent/stacks/native_unwinder.hpp"
#include "agent/stacks/process_memory.hpp"

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace muster::agent {

/// Memory that such a process may take besides ours, and how many of them are tried for one process that is
/// read.
inline constexpr std::size_t kNativeChildBytesMax = std::size_t{1} << 30;
inline constexpr int kNativeChildrenMax = 4;

/// The process whose threads were copied, and the text of its /proc/PID/maps.
struct NativeProcess {
  pid_t pid = 0;
  std::string maps;
};

/// Adds the calls of these threads to `stacks`, and tells `show` as read_native_stacks() does. A thread
/// without calls says why: a child that a file has ended is named with the file, and another child reads the
/// threads behind. At the deadline a child is killed; the calling thread waits until the kernel lets it go.
/// Throws nothing but std::bad_alloc.
void unwind_apart(const Libdw& libdw, const NativeProcess& process, const std::vector<ThreadCopy>& copies,
                  StackDeadline deadline, NativeStacks stacks, const std::function<void(NativeStacks)>& show);

}  // namespace muster::agent
