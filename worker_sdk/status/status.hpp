// SPDX-License-Identifier: Apache-2.0
// A process's status for those who watch it: the agent, or the other ranks of this host. Which call every
// group is in, since when, and the last calls. Always on, some tens of nanoseconds a call.
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
  /// As ProcessGroupOptions::report_after, for what peers of this host report where there is no agent.
  std::chrono::milliseconds report_after = std::chrono::seconds(15);
};

struct Watchers;
class PeerSlots;

/// What a world tells besides the calls of its groups; injected faults (docs/failures.md) happen there, too.
enum class Phase { agree, barrier, finalize };

/// One world's status. Made first of all in World::init(), destroyed last. Any thread, except where said.
class Status {
 public:
  /// Takes the file that the agent made (MUSTER_STATUS), or makes one. Throws Error (invalid_argument) when
  /// MUSTER_FAULT is wrong; a status file that cannot be had is no error: the world then runs without.
  explicit Status(StatusOptions options);
  ~Status();
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;

  /// A factory that makes what `inner` makes and shows it: the making (phases init and split) and every call.
  std::shared_ptr<GroupFactory> observe(std::shared_ptr<GroupFactory> inner);

  /// Before the ranks agree on a backend, before a barrier over the store, and when the world ends. May throw
  /// Error: an injected one.
  void at(Phase phase);

  /// The program's step, for reports.
  void set_step(std::uint64_t step);

  /// Whether an agent watches. If not, call watch_peers() once all ranks are there, before the first group.
  bool has_agent() const;

  /// Opens the status of the other ranks of this host and watches their processes from a thread of its own
  /// until the end: a call that waits for a dead process ends with its name, one that waits long is reported.
  /// All ranks call it; `store` is used only inside.
  void watch_peers(StoreClient& store);

 private:
  const StatusOptions options_;
  std::shared_ptr<Watchers> watchers_;
  std::unique_ptr<PeerSlots> peers_;
};

}  // namespace muster::status
