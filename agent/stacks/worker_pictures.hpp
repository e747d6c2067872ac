// SPDX-License-Identifier: Apache-2.0
// What the processes of workers do at one moment: before they are killed, or when somebody asks.
#pragma once

#include "agent/stacks/core/process_stacks.hpp"
#include "agent/stacks/process_memory.hpp"
#include "agent/stacks/python_stack.hpp"
#include "rendezvous/base/process_stat.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace muster::agent {

/// Takes a picture of each worker once. A thread of its own reads, for as long as it is given: a file on a
/// dead server, or memory behind one, can make the kernel hold it without end, and it is left behind then.
/// Used from one thread.
class WorkerPictures {
 public:
  struct Worker {
    /// Names the worker for of().
    int number = 0;
    /// Its own process, which leads or led a session. 0: never started.
    pid_t pid = 0;
    /// Whether the process has not been reaped, so that nobody else can have its number.
    bool living = false;
    /// Whether the programs below it are wanted even if its own process is a Python program.
    bool helpers = false;
    /// Whether with these those are wanted, too, that are no Python programs.
    bool any_program = false;
  };

  /// Looks at the workers that have no picture yet, those that live first, for `all_at_most` together. Where
  /// a worker's own process is no Python program (a shell, `uv run`), or has ended, those below it are looked
  /// at. Workers that are not reached in this time have what was found out by then.
  void take(const std::vector<Worker>& workers, std::chrono::milliseconds all_at_most);

  /// Drops the pictures, so that the same workers can be looked at anew.
  void forget();

  /// Returns the pictures of a worker's processes, in at most about `bytes` of JSON. None if there was
  /// nothing to be seen, or if the worker lived at that time and then ended by itself before it was `killed`.
  std::vector<ProcessPicture> of(int number, bool killed, std::size_t bytes) const;

  /// Time for all workers of a node: after the grace period, and where somebody wants them gone at once
  /// (a second Ctrl-C). It usually takes some milliseconds.
  static constexpr std::chrono::milliseconds kBeforeKill{300};
  static constexpr std::chrono::milliseconds kBeforeKillAtOnce{100};
  /// The same where somebody asks what the workers do.
  static constexpr std::chrono::milliseconds kWhenAsked{300};
  /// Most Python programs of one worker that are shown.
  static constexpr std::size_t kProcessesShown = 4;

 private:
  struct Look;

  /// Does the reading; shared with the thread that reads, which may outlive this object.
  std::shared_ptr<Look> look_;
  std::map<int, std::vector<ProcessPicture>> pictures_;
  /// The workers that lived when they were looked at.
  std::set<int> living_;
};

/// Reads the name and state of a process; nothing that the process could hold up (proc(5)).
ProcessPicture read_process_words(const ProcessStat& process);

}  // namespace muster::agent
