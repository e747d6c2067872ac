// SPDX-License-Identifier: Apache-2.0
// All processes below one of ours, and how to end them so that none escapes.
#pragma once

#include "rendezvous/base/process_stat.hpp"

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace muster::agent {

/// Returns why the processes of a job cannot be found from here, and what to do about it; empty if they can.
/// They are looked for in /proc, which may be missing (in a chroot), or show another PID namespace than our
/// own.
std::string proc_trouble();

/// Returns every living descendant of `root`, from /proc; `root` itself, zombies, everything below the pids
/// in `except` and children that work for us (OwnChild) are left out. Empty if /proc cannot be read.
std::vector<ProcessStat> descendants_of(pid_t root, const std::vector<pid_t>& except = {});

/// Returns a text such as "4711 python, 4712 sleep".
std::string list_processes(const std::vector<ProcessStat>& processes);

/// Sends `signal` if the process is still the same one; returns whether it was sent.
bool signal_process(const ProcessStat& process, int signal);

/// Stops, then kills every descendant of this process except those under `except`: SIGSTOP until an
/// enumeration finds nothing new (a stopped process cannot fork), then SIGKILL. Returns what was signalled.
/// Call again until no child is left: what was adopted meanwhile may have descendants of its own.
std::vector<ProcessStat> kill_descendants(const std::vector<pid_t>& except = {});

/// Reaps every ended child that is not in `keep`. Returns whether any child, ended or not, is left besides
/// `keep`.
bool reap_children(const std::vector<pid_t>& keep = {});

/// Whether what waitid() has told is the end of a process, and no stop of one whose stacks are being read:
/// each wait of a process is told of the stops by ptrace of its threads.
bool tells_end(const siginfo_t& info);

struct Orphans {
  /// Whether some children were reaped.
  bool any = false;
  /// Whether a child is left, ended or not, besides those that work for us (OwnChild).
  bool children_left = true;
  /// Whether a child that has ended was left to who waits for its exit code, or one is stopped while its
  /// stacks are read; others may have ended behind it, so look again soon.
  bool met_kept = false;
};

/// Reaps ended children, whoever started them, until it meets one for which `kept` is true. `reaped`
/// (optional) is told of each, and whether it has ended by itself, not of a signal.
Orphans reap_orphans(const std::function<bool(pid_t)>& kept,
                     const std::function<void(pid_t, bool by_itself)>& reaped = nullptr);

/// Kills and reaps all descendants, except those under `except`, until none is left or `limit_ms` has passed.
/// Blocks. Returns whether none is left.
bool end_all_descendants(const std::vector<pid_t>& except, int limit_ms);

/// Makes this process adopt orphaned descendants (PR_SET_CHILD_SUBREAPER). Throws std::system_error.
void become_subreaper();

}  // namespace muster::agent
