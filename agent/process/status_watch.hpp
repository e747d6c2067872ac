// SPDX-License-Identifier: Apache-2.0
// Reads which calls the workers of a round are in, from memory that each worker shares with its agent.
#pragma once

#include "worker_sdk/status/diagnosis.hpp"
#include "worker_sdk/status/status_file.hpp"

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

/// The status files of the workers of one round. They are memory without a name: a worker opens its own
/// through /proc, and what it wrote can be read after its death.
class StatusWatch {
 public:
  explicit StatusWatch(int workers) : workers_(static_cast<std::size_t>(workers)) {}

  /// Makes the file of one worker; returns the value of MUSTER_STATUS, or nothing if there can be no file.
  std::string make(int local_rank, int rank, int world_size);
  void started(int local_rank, pid_t pid);

  /// Whether any worker has taken its file. Costs a few loads.
  bool in_use() const;

  /// Returns the status of all workers that have a file; the states of the processes are left unknown.
  std::vector<status::RankView> read() const;
  /// Asks the kernel what the processes do.
  static void look_at_processes(std::vector<status::RankView>& ranks);
  /// Returns the last calls of each worker, in the order of read().
  std::vector<std::vector<status::RecentCall>> recent_calls(std::size_t limit) const;

 private:
  struct Worker {
    std::optional<status::StatusFile> file;
    int rank = 0;
    int world_size = 1;
    pid_t pid = 0;
  };

  std::vector<Worker> workers_;
};

}  // namespace muster::agent
