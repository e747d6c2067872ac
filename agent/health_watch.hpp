// SPDX-License-Identifier: Apache-2.0
// Looks at the workers of a round at intervals, and tells what each rank does when that is worth knowing:
// when it has stood still for a while, and when it moves again.
#pragma once

#include "agent/core/rank_health.hpp"
#include "agent/flight_watch.hpp"
#include "agent/nccl_ras_client.hpp"
#include "agent/process/call_watch.hpp"
#include "agent/process/evidence.hpp"
#include "agent/process/output/worker_output.hpp"
#include "agent/process/vouch.hpp"
#include "agent/stacks/core/hang_stacks.hpp"
#include "agent/stacks/worker_pictures.hpp"
#include "rendezvous/protocol/message.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

/// Used from the executor's one thread.
class HealthWatch {
 public:
  /// `timeout`: the time after which a standstill counts as a hang (--hang-timeout); 0: nothing is watched,
  /// nor if `tell` is empty, which gets what is worth knowing (RankHealth, RankFlight). `output` and `calls`
  /// know what /proc does not tell; they outlive the watch.
  HealthWatch(const boost::asio::any_io_executor& executor, std::chrono::milliseconds timeout,
              const WorkerOutput& output, const CallWatch& calls,
              std::function<void(const rendezvous::Message&)> tell);

  /// Adds to the environment of a worker that is about to start what lets NCCL, and PyTorch's flight
  /// recorder, tell of themselves. `folder`: where sockets can be, for this user alone; empty: nowhere.
  void prepare(Environment& environment, const std::string& folder, const rendezvous::RoundResult& place,
               int local_rank);

  /// A worker of the round has started. From the first on the workers are looked at, until all have ended.
  void started(const rendezvous::RoundResult& place, int local_rank, pid_t pid);
  /// The worker has ended, with success or not; it is looked at no more.
  void ended(int local_rank, bool success);

  /// What the rank of a worker does, as of the last look, which is two seconds old at most; nullopt of one
  /// that has ended, or where nothing is watched.
  std::optional<rendezvous::RankHealth> health_of(int local_rank) const;

  /// Whether a worker has stood still for so long that a hang is suspected.
  bool suspects() const;

  /// Where the workers are that stand still, by the stacks that were taken at the last look.
  std::vector<HangStack> hang_stacks() const;

  /// What the flight recorders of workers that stand still have noted, as far as they have told.
  std::vector<rendezvous::FlightRank> flight_records() const { return flights_.records(); }

  /// The store has told that a connection from this host waits for a key. A worker whose it is and that
  /// stands still is judged anew at once.
  void key_wait(const rendezvous::KeyWait& wait);

 private:
  struct Worker {
    int local_rank = 0;
    pid_t pid = 0;
    /// The process that is looked at: the worker's own, or the program below a shell.
    pid_t program = 0;
    /// Its files are opened at the first look, which comes seconds after the start: a short job has none.
    std::optional<WorkerEvidence> evidence;
    RankTracker tracker;
    bool has_ended = false;
    unsigned looks = 0;
    /// When its last sample was taken.
    std::chrono::steady_clock::time_point looked_at{};
    /// What the store has told last, which holds for a while, or until the worker moves.
    std::string key{};
    std::string nearest{};
    std::chrono::steady_clock::time_point key_told_at{};
  };

  void wait();
  void look();
  bool look_at(Worker& worker);
  void judge(Worker& worker);
  void add_nccl(Worker& worker) const;
  void ask_flights();

  int rank_of(const Worker& worker) const { return place_.first_rank + worker.local_rank; }

  static void follow(Worker& worker);
  static void look_into(Worker& worker, pid_t program);

  std::chrono::milliseconds timeout_;
  const WorkerOutput& output_;
  const CallWatch& calls_;
  std::function<void(const rendezvous::Message&)> tell_;
  boost::asio::steady_timer timer_;
  rendezvous::RoundResult place_;
  std::vector<Worker> workers_;
  Voucher connections_;
  /// Where the workers that stand still are in their Python code.
  WorkerPictures pictures_;
  NcclRasClient nccl_;
  FlightWatch flights_;
};

}  // namespace muster::agent
