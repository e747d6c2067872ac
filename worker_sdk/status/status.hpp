// SPDX-License-Identifier: Apache-2.0
// Shows a process's status to those who watch it: the agent, or the other ranks of this host. It tells in
// which call every group is, since when, and the last calls. It is always on and costs some tens of
// nanoseconds per call.
#pragma once

#include "worker_sdk/comm/process_group.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace muster {
class StoreClient;
}

namespace muster::status {

struct StatusOptions {
  int rank = 0;
  int size = 1;
  int round = 0;
  std::string host;
  /// The time after which ranks report a long wait if there is no agent, as
  /// ProcessGroupOptions::report_after.
  std::chrono::milliseconds report_after = std::chrono::seconds(15);
};

struct Watchers;
class PeerSlots;

/// The phases that a world shows besides the calls of its groups; injected faults (docs/failures.md) strike
/// there as well.
enum class Phase { agree, barrier, finalize };

/// The status of one world. It is made first of all in World::init() and destroyed last. Any thread, except
/// where said.
class Status {
 public:
  /// Takes the file that the agent made (MUSTER_STATUS), or makes one. Throws Error (invalid_argument) when
  /// MUSTER_FAULT is wrong. A status file that cannot be opened or made is no error: the world then runs
  /// without one.
  explicit Status(StatusOptions options);
  ~Status();
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;

  /// Makes a factory that makes the groups of `inner` and shows them: their making (phases init and split)
  /// and every call.
  std::shared_ptr<GroupFactory> observe(std::shared_ptr<GroupFactory> inner);

  /// Tells of a phase: before the ranks agree on a backend, before a barrier over the store, and when the
  /// world ends. May throw Error: an injected fault.
  void at(Phase phase);

  /// Sets the program's step, for reports.
  void set_step(std::uint64_t step);

  /// Whether an agent watches this process. If not, call watch_peers() once all ranks are there, before the
  /// first group.
  bool has_agent() const;

  /// Opens the status of the other ranks of this host and watches their processes from a thread of its own
  /// until the end: a call that waits for a dead process ends with an error that names it, and a call that
  /// waits long is reported. All ranks call it; `store` is used only during the call.
  void watch_peers(StoreClient& store);

 private:
  const StatusOptions options_;
  std::shared_ptr<Watchers> watchers_;
  std::unique_ptr<PeerSlots> peers_;
};

}  // namespace muster::status
