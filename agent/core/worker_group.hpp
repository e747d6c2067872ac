// SPDX-License-Identifier: Apache-2.0
// The life of one node's workers in one round, as a pure state machine: exits, orders and time in, actions
// out.
#pragma once

#include "agent/core/end_order.hpp"
#include "agent/core/exit_status.hpp"
#include "agent/core/node_report.hpp"

#include <chrono>
#include <optional>
#include <vector>

namespace muster::agent {

using TimePoint = std::chrono::steady_clock::time_point;

/// What the shell has to do now, in the order of the members.
struct GroupActions {
  /// Send this signal to every worker that has not ended. 0: none.
  int signal_workers = 0;
  /// Every worker has ended: send TERM to whatever processes they left running, then say descendants_gone()
  /// once there are none (at once, if there are none).
  bool end_leftovers = false;
  /// Send KILL to the workers that have not ended; kill_all follows after kHelperTime.
  bool kill_workers = false;
  /// Send KILL to every process of the round, workers and all their descendants.
  bool kill_all = false;
  /// Nothing of the round is left (or it cannot be killed): the round is over.
  bool over = false;
  /// Call tick() at this time.
  std::optional<TimePoint> wake_at;
};

/// How a round ended.
enum class RoundOutcome { succeeded, failed, stopped };

/// Decides when workers are told to stop, when they are killed, and when the round is over. The rules: the
/// first failure or order begins a stop; a stop sends one signal, waits for the grace period that all share,
/// then kills: first the workers, then, after kHelperTime, what is left, so that helpers which clean up after
/// a worker can. Leftovers of workers are part of the round and end within the same grace period. Used from
/// one thread. Time is always an argument.
class WorkerGroup {
 public:
  /// `workers` > 0; `grace` >= 0 is the time between the stop signal and KILL.
  WorkerGroup(int workers, std::chrono::milliseconds grace);

  GroupActions exited(int local_rank, ExitStatus status, TimePoint now);
  /// Takes ends that were seen together, the cause first: none of these workers was told to stop because of
  /// another.
  GroupActions exited(const std::vector<WorkerEnd>& ends, TimePoint now);
  /// Takes the end of a worker whose program could not be executed; `status` is 126 or 127.
  GroupActions not_started(int local_rank, ExitStatus status, TimePoint now);
  /// Takes an order to end, with the signal that the workers get, and perhaps a grace period of its own, of
  /// which the first counts; a later one never lengthens it.
  GroupActions stop(int signal, TimePoint now, std::optional<std::chrono::milliseconds> grace = std::nullopt);
  /// Takes an order to end without grace.
  GroupActions kill_now(TimePoint now);
  /// Takes the news that no process of the round is left.
  GroupActions descendants_gone();
  /// Called on kill_workers if no worker was left to be killed, so that nothing has to clean up after one.
  GroupActions no_worker_killed(TimePoint now);
  GroupActions tick(TimePoint now);

  bool ended(int local_rank) const { return slot(local_rank).ended; }

  int ended_count() const { return arrivals_; }

  /// Whether no stop has begun and some worker has not ended.
  bool running() const { return phase_ == Phase::running; }

  /// Whether processes of the round have been told to end, and none was killed yet.
  bool stopping() const { return phase_ == Phase::stopping || phase_ == Phase::leftovers; }

  /// Whether KILL is being sent.
  bool killing() const { return phase_ == Phase::killing; }

  bool over() const { return phase_ == Phase::over; }

  /// Returns when KILL comes, while stopping().
  std::optional<TimePoint> kill_at() const { return kill_at_; }

  /// Whether some process survived KILL for kUnkillableAfter.
  bool unkillable() const { return unkillable_; }

  /// Returns how the round ended; valid once over.
  RoundOutcome outcome() const;
  WorkerOutcome worker_outcome(int local_rank) const;
  /// Returns the last stop signal that was sent before the worker ended; 0: none.
  int signal_before_end(int local_rank) const;

  ExitStatus status(int local_rank) const { return slot(local_rank).status; }

  /// Returns the place of this worker in the order of ends, from 1; 0 while it runs.
  int arrival(int local_rank) const { return slot(local_rank).arrival; }

  static constexpr std::chrono::milliseconds kKillRepeat{5};
  /// Time between the KILL of the workers and that of everything else.
  static constexpr std::chrono::milliseconds kHelperTime{200};
  /// Time after which a process that survives KILL is given up: one in uninterruptible sleep does not go
  /// away, and the agent must.
  static constexpr std::chrono::seconds kUnkillableAfter{10};

 private:
  enum class Phase { running, stopping, leftovers, killing, over };

  struct Slot {
    bool ended = false;
    bool started = true;
    bool after_stop = false;
    /// The last stop signal that was sent before it ended; 0: none.
    int stop_signal = 0;
    int arrival = 0;
    ExitStatus status;
  };

  const Slot& slot(int local_rank) const { return slots_.at(static_cast<std::size_t>(local_rank)); }

  /// Records the end of a worker. Returns false if nothing is new.
  bool record_end(int local_rank, ExitStatus status, bool started);
  GroupActions act_on_ends(bool failed, TimePoint now);
  GroupActions begin_stop(int signal, TimePoint now);
  GroupActions begin_killing(TimePoint now);

  std::vector<Slot> slots_;
  std::chrono::milliseconds grace_;
  /// Whether an order has set it.
  bool own_grace_ = false;
  Phase phase_ = Phase::running;
  int arrivals_ = 0;
  /// The stop signals that were sent, the first one first.
  std::vector<int> sent_;
  bool ordered_ = false;
  bool failed_ = false;
  bool unkillable_ = false;
  std::optional<TimePoint> kill_at_;
  TimePoint killing_since_;
  TimePoint kill_all_at_;
};

}  // namespace muster::agent
