// SPDX-License-Identifier: Apache-2.0
// What /proc says of a process, in words; and which processes of a worker are looked at.
#pragma once

#include "rendezvous/base/process_stat.hpp"

#include <string>
#include <vector>

namespace muster::agent {

/// Describes what a process does for the kernel: "sleeping in the system call futex (futex_wait_queue)", "in
/// the kernel (D state) in the system call read (nfs_wait_bit_killable)", "stopped by a signal", "running".
/// `state` is the letter of /proc/PID/stat; `wait_channel` and `syscall` are the texts of the files of that
/// name, empty if they cannot be read. Format: proc(5).
std::string describe_state(char state, const std::string& wait_channel, const std::string& syscall);

/// Returns the name of a system call of this machine that programs wait in; its number as text for others.
std::string system_call_name(long number);

/// Returns the living processes below a worker's own, nearest first: its descendants, and what has lost its
/// parent but is still in the session that the worker's process `worker` leads or led, with their
/// descendants. Only descendants of `ancestor` count: the number of a worker that has ended may name another
/// process meanwhile. `all` holds every process.
std::vector<ProcessStat> processes_below(const std::vector<ProcessStat>& all, int ancestor, int worker);

}  // namespace muster::agent
