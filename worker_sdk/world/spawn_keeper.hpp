// SPDX-License-Identifier: Apache-2.0
// The process between the caller of spawn() and the ranks: their parent, their store, and their end.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "worker_sdk/world/spawn.hpp"

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// What a rank has to know and to close before its body runs.
struct KeeperPlan {
  const std::function<int(int rank, int size)>& body;
  int size = 1;
  const SpawnOptions& options;
  int parent_end = -1;            ///< the other end of `report`, which the keeper closes
  sigset_t mask{};                ///< signal mask of the caller of spawn(), for the ranks
  struct sigaction child_action;  ///< action of the caller for SIGCHLD, for the ranks
};

/// Runs in a process of its own: starts the ranks, serves their store, waits for them, and writes the result
/// to `report`. Ends all it has started, even when the parent dies, whose end `report` shows. Does not
/// return.
[[noreturn]] void run_keeper(const KeeperPlan& plan, UniqueFd report);

/// Writes what stdio and the C++ streams still hold: a fork would copy it, and _exit() lose it.
void flush_streams() noexcept;

/// The report that the keeper wrote. from_text() gives nullopt for text that is cut off.
struct KeeperReport {
  bool failed = false;
  bool broken = false;  ///< the ranks could not be started; `failure.text` says why
  SpawnFailure failure;

  std::string to_text() const;
  static std::optional<KeeperReport> from_text(std::string_view text);
};

/// Processes whose parent this one is, by /proc.
std::vector<pid_t> children_of_this_process();

/// Kills and reaps all children of this process until none is left, or `deadline`. In a child subreaper that
/// is the whole tree: what a killed process leaves comes here. False at the deadline.
bool kill_children(std::chrono::steady_clock::time_point deadline);

}  // namespace muster
