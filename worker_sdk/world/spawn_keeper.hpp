// SPDX-License-Identifier: Apache-2.0
// The process between the caller of spawn() and the ranks. It starts the ranks, serves their store, and ends
// them.
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

/// The facts that a rank needs, and the descriptors that it closes, before its body runs.
struct KeeperPlan {
  const std::function<int(int rank, int size)>& body;
  int size = 1;
  const SpawnOptions& options;
  int parent_end = -1;            ///< other end of `report`, which the keeper closes
  sigset_t mask{};                ///< signal mask of the caller of spawn(), for the ranks
  struct sigaction child_action;  ///< action of the caller for SIGCHLD, for the ranks
};

/// Runs the keeper in a process of its own: it starts the ranks, serves their store, waits for them, and
/// writes the result to `report`. It ends all processes that it has started, even when the parent dies, which
/// it notices at `report`. Does not return.
[[noreturn]] void run_keeper(const KeeperPlan& plan, UniqueFd report);

/// Writes the output that stdio and the C++ streams still hold: a fork would copy it, and _exit() would lose
/// it.
void flush_streams() noexcept;

/// The report that the keeper wrote. from_text() gives nullopt for text that is cut off.
struct KeeperReport {
  bool failed = false;
  bool broken = false;  ///< whether the ranks could not be started; `failure.text` says why
  SpawnFailure failure;

  std::string to_text() const;
  static std::optional<KeeperReport> from_text(std::string_view text);
};

}  // namespace muster
