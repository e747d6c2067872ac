// SPDX-License-Identifier: Apache-2.0
// Watches which calls the workers of a round are in, in memory that each worker shares with its agent: says
// which wait too long, and keeps a picture of all for the report.
#pragma once

#include "agent/core/call_report.hpp"
#include "agent/core/rank_pace.hpp"
#include "worker_sdk/status/diagnosis.hpp"
#include "worker_sdk/status/status_file.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

/// The status files of the workers are memory without a name: a worker opens its own through /proc, and what
/// it wrote can be read after its death. Used from the executor's one thread.
class CallWatch {
 public:
  /// `report_after` as WaitReporter takes it. `running` says whether the round goes on: after that nothing is
  /// said and no picture is made, since the workers' calls then show what was done to them.
  CallWatch(const boost::asio::any_io_executor& executor, int workers,
            std::optional<std::chrono::milliseconds> report_after, std::function<bool()> running);

  /// Makes the file of one worker; returns the value of MUSTER_STATUS, or nothing if there can be no file.
  std::string make(int local_rank, int rank, int world_size);
  void started(int local_rank, pid_t pid);

  /// Looks at intervals until cancel(). The workers only note their calls where the agent can read them, so
  /// that a call costs them nanoseconds. `pace` gets how fast the ranks make their steps in this round; it
  /// may be empty.
  void start(rendezvous::RoundNumber round = 0, std::function<void(const rendezvous::RankPace&)> pace = {});

  void cancel() { timer_.cancel(); }

  /// Records which call each worker is in, once: the first picture stays. `failed` is the rank whose end is
  /// the cause, or -1.
  void take_picture(int failed);

  /// What a worker's file shows now; nullopt if it has none, or no process has taken it.
  std::optional<status::RankStatus> status_of(int local_rank) const;

  /// The picture; empty before there is one.
  const CallReport& picture() const { return picture_; }

 private:
  struct Worker {
    std::optional<status::StatusFile> file;
    int rank = 0;
    int world_size = 1;
    pid_t pid = 0;
    PaceMeter pace{};
  };

  void wait();
  void look();
  void tell_paces(const std::vector<status::RankView>& ranks, std::uint64_t now_ns);
  bool in_use() const;
  std::vector<status::RankView> read() const;

  std::vector<Worker> workers_;
  std::function<bool()> running_;
  std::function<void(const rendezvous::RankPace&)> pace_;
  rendezvous::RoundNumber round_ = 0;
  std::int64_t looks_ = 0;
  boost::asio::steady_timer timer_;
  WaitReporter waits_;
  bool pictured_ = false;
  CallReport picture_;
};

}  // namespace muster::agent
