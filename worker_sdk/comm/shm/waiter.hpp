// SPDX-License-Identifier: Apache-2.0
// Lets a rank of a shared-memory group wait for the others.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/comm/group_plan.hpp"
#include "worker_sdk/comm/shm/layout.hpp"
#include "worker_sdk/comm/shm/roster.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace muster::shm {

/// The first step of a collective; a rank that has reached it is in the call.
struct Entry {
  std::uint64_t turn = 0;
  std::uint32_t step = 0;
};

/// Lets one rank wait for the others: it spins briefly when each rank can have a core, then gives the core
/// away, then sleeps. While it waits it looks for a failure of the group, for ranks whose process ended, and
/// at the clock: it reports a long wait once, and ends it at the deadline. Each failure is published to all
/// ranks and thrown. One thread at a time.
class Waiter {
 public:
  Waiter(Layout layout, const GroupPlan& plan);

  /// Begins a collective. `turn` is the number of the call for its lines; `call` must outlive it. The clock
  /// starts with the first wait that is not short.
  void begin(const Call& call, std::uint64_t turn);

  /// Begins messages; `next` is the collective that comes after them.
  void begin_messages(const Call& call, const Entry& next);

  /// Tells that this rank has done step `step` of the group, the first of its collective, and returns when
  /// all others have done it as well.
  void enter(std::uint32_t step) {
    entered_ = step;
    this->step(step);
  }

  void step(std::uint32_t step) {
    const RankBlock& block = layout_.block(rank_);
    layout_.line(rank_, turn_).progress.post(step);
    if (block.sleepers.any()) wake(rank_, turn_);
    for (int offset = 1; offset < ranks_; ++offset) {
      const int peer = rank_ + offset < ranks_ ? rank_ + offset : rank_ + offset - ranks_;
      if (!layout_.line(peer, turn_).progress.reached(step)) wait_for(peer, step);
    }
  }

  /// Waits for messages: called when no message could be moved since `rings` was read from this rank's
  /// doorbell; returns when something may have changed. `peers`: the ranks that are waited for. `idle` counts
  /// the calls in a row. Returns a peer that will not come, because it waits for this rank in the next
  /// collective; -1: none.
  int wait_for_message(std::uint32_t rings, const std::vector<int>& peers, int& idle);

  /// Sets the call that texts name from now on, among messages. It must outlive the wait.
  void describe_as(const Call& call) { call_ = &call; }

  /// Wakes a rank that waits for messages.
  void ring(int peer) const;

  /// Tells that this rank will make no further step; ranks that wait for one learn it at once.
  void leave();

  /// Throws the group's failure if it has one.
  void check() const {
    if (layout_.header().failure.is_set()) throw_failure();
  }

  /// Publishes a failure (unless the group has one already) and throws the one that the group has.
  [[noreturn]] void fail(ErrorCode code, const std::string& text);

  /// Does the same as fail() without throwing. Any thread.
  void publish(ErrorCode code, const std::string& text) const;

  const Roster& roster() const { return roster_; }

 private:
  using Clock = std::chrono::steady_clock;

  [[noreturn]] void throw_failure() const;
  Clock::time_point start_clock();
  void wait_for(int peer, std::uint32_t step);
  void sleep_on(int peer, std::uint32_t step, Clock::time_point now);
  void look_around(std::uint32_t step, Clock::time_point now);
  int look_at_peers(const std::vector<int>& peers, Clock::time_point now);
  void lose(int peer, bool left);
  void judge(const std::string& missing, const std::vector<int>& waiting, Clock::time_point now);
  bool yielded(Clock::time_point now);
  Clock::duration sleep_time(Clock::time_point now) const;
  void wake(int peer, std::uint64_t turn) const;
  void wake_all() const;

  Layout layout_;
  int rank_;
  int ranks_;
  std::string group_;
  std::chrono::milliseconds timeout_;
  std::chrono::milliseconds report_after_;
  Roster roster_;
  int spins_;
  const Call* call_ = nullptr;
  std::uint64_t turn_ = 0;
  std::uint32_t entered_ = 0;
  bool has_clock_ = false;  ///< whether the clock runs for the present call
  bool reported_ = false;
  int vain_yields_ = 0;
  std::uint32_t waits_ = 0;
  Entry next_;               ///< the collective after the present messages
  int suspect_ = -1;         ///< a rank that was gone at the last look
  int elsewhere_ = -1;       ///< a rank that waited in the next collective at the last look
  Clock::time_point since_;  ///< when the call's first wait began
  Clock::time_point wait_began_;
  Clock::time_point next_look_;
};

}  // namespace muster::shm
