// SPDX-License-Identifier: Apache-2.0
// Ranks as real processes: forked from a test that has no threads, each reporting how it ended.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::test {

/// A store server of ours in a process of its own, killed at the end.
class StoreProcess {
 public:
  StoreProcess();
  ~StoreProcess();
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;

  int port() const { return port_; }

  /// It answers nothing any more. A rank may call it, too.
  void stop() const;

 private:
  pid_t pid_ = -1;
  int port_ = 0;
};

/// How a rank's process ended.
struct RankResult {
  bool killed = false;            ///< by a signal
  std::optional<ErrorCode> code;  ///< of the muster::Error that ended the body
  std::string text;               ///< its text, or what the body returned
  double ended_at = 0;            ///< seconds on the system-wide monotonic clock
};

/// What a rank does; the string it returns goes to RankResult::text.
using RankBody = std::function<std::string(int rank, StoreClient& store)>;

/// Ranks that are running.
class RankProcesses {
 public:
  /// Forks `size` ranks, each connected to the store at `port` on this host.
  RankProcesses(int size, int port, const RankBody& body);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  pid_t pid(int rank) const { return ranks_[static_cast<std::size_t>(rank)].pid; }

  /// Waits for a byte that `rank` sends with signal_parent().
  void wait_for_signal(int rank) const;
  void kill_rank(int rank) const;
  /// Waits until the process of `rank` has ended; its report is still there for wait().
  void wait_for_end(int rank) const;
  /// Waits for all; the caller's time limit is CTest's.
  std::vector<RankResult> wait();
  /// Waits for all but one, which is killed then.
  std::vector<RankResult> wait_but(int rank);

 private:
  struct Rank {
    pid_t pid = -1;
    int pipe = -1;
  };

  static RankResult wait_for(Rank& rank);

  std::vector<Rank> ranks_;
};

/// Inside a rank: wakes wait_for_signal().
void signal_parent();

double monotonic_seconds();

std::vector<RankResult> run_processes(int size, int port, const RankBody& body);

}  // namespace muster::test
