// SPDX-License-Identifier: Apache-2.0
// A process's place in a job: its rank, the store, and the group of all ranks. The C functions of muster.h
// use it.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/env/place.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster {

struct WorldOptions {
  /// The way in which the ranks meet. "" or "env://": by the environment. "tcp://host:port": rank 0 serves
  /// the store there. "file:///path": the ranks meet through that file. Default: "".
  std::string init_url;
  /// The backend: "auto", "shm", "gloo", "hierarchical", "mpi", "nccl". Default: "auto", or MUSTER_BACKEND if
  /// that is set.
  std::string backend;
  /// The rank and the number of ranks; -1: found in the environment.
  int rank = -1;
  int size = -1;
  /// Whether the program gives memory of the host to its calls, so that "auto" is not nccl. Default: false.
  bool host_memory = false;
  /// The device for nccl; -1: the local rank.
  int device = -1;
  /// The time for all ranks to come together, then for them to agree on the backend, and to make the group.
  /// Default: 5 minutes.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
  /// The longest time that the rank which serves the store waits for the others at the end. Default: 2
  /// seconds.
  std::chrono::milliseconds leave_timeout = std::chrono::seconds(2);
  /// The longest time of a call, and the time after which it is reported; see ProcessGroupOptions.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::chrono::milliseconds report_after = std::chrono::seconds(15);
};

/// The place of this process in the job. Plain data.
struct WorldInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int node_rank = 0;
  int nodes = 1;
  int restart_count = 0;
  std::string run_id = "none";
  std::string host;
  Launcher launcher = Launcher::bare;
  /// The store as "host:port"; "" in a world of one without any.
  std::string store;
};

/// One world; several may live in one process (as threads of a test, or with other stores). It is made, used
/// and destroyed by one thread at a time; the groups have rules of their own, and end before it. The
/// destructor waits for no other rank, except that the rank that serves the store waits up to
/// WorldOptions::leave_timeout for the others to leave.
class World {
 public:
  /// Finds rank, size and store, connects, and makes the group of all ranks. Throws Error: invalid_argument
  /// names the variable or option that is missing or wrong, deadline the ranks that did not come.
  static std::unique_ptr<World> init(const WorldOptions& options = {});

  virtual ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  virtual const WorldInfo& info() const = 0;
  /// The group of all ranks. This function and those below throw Error (state) in a process that was forked
  /// after init(), because it has no part in the world.
  virtual ProcessGroup& group() = 0;
  /// The store with the keys of this world alone: job, round, and place among the worlds made over the same
  /// store. A world of one without a store has one inside this process, which has no queues.
  virtual StoreClient& store() = 0;
  /// Returns when every rank has called it with this name, equally often. It goes over the store, whatever
  /// the backend. Throws Error (deadline) that names the missing ranks, or (peer_lost, aborted) one of them
  /// that will not come, as far as can be seen.
  virtual void barrier(const std::string& name, std::chrono::milliseconds limit) = 0;
  /// Sets the program's step, for the reports of failures and late ranks. Any thread; takes some nanoseconds.
  virtual void set_step(std::uint64_t step) = 0;
  /// Whether the launcher has told this node's workers to end (StopNotice): never without one that sets
  /// MUSTER_STOP_FILE. Local: other ranks may learn of it some steps sooner or later. Any thread; takes some
  /// tens of nanoseconds.
  virtual bool should_stop() = 0;

  /// Ends the world in order; call it before the destructor, which cannot report an error. Throws Error if
  /// MUSTER_FAULT injects one at finalize. A second call does nothing.
  virtual void finalize() = 0;

  /// Makes the destructor wait no longer than `limit` (if that is less than WorldOptions::leave_timeout).
  /// `why`, unless empty, is the text for ranks that wait for this one at a barrier.
  virtual void prepare_to_leave(std::chrono::milliseconds limit, const std::string& why) = 0;

 protected:
  World() = default;
};

}  // namespace muster
