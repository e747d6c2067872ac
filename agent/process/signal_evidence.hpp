// SPDX-License-Identifier: Apache-2.0
// Reads what the kernel shows of a process that decides where a signal goes: which child it waits for, and
// which signals it ignores and catches.
#pragma once

#include "agent/core/signal_route.hpp"

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

namespace muster::agent {

/// Reads the text of /proc/<pid>/syscall: "61 0xffffffff ..." is wait4(-1, ...). `own_group` is the process
/// group of that process; `pid_of_pidfd` gives the pid behind one of its descriptors, 0 if there is none.
/// Format: proc(5); numbers are those of this machine's system calls.
ChildWait parse_child_wait(const std::string& text, pid_t own_group,
                           const std::function<pid_t(int fd)>& pid_of_pidfd);

/// Reads SigIgn and SigCgt of the text of /proc/<pid>/status; nullopt if they are not there.
std::optional<SignalSets> parse_signal_sets(const std::string& status);

/// Reads which child the main thread of a process waits for now.
ChildWait read_child_wait(const ProcessStat& process);

/// Reads which signals a process ignores and catches; nullopt if the process is gone.
std::optional<SignalSets> read_signal_sets(const ProcessStat& process);

}  // namespace muster::agent
