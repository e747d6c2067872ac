// SPDX-License-Identifier: Apache-2.0
// Which processes of a worker a signal is for. A worker's own process is asked first; what it started is left
// to it, so that a trainer can save while its data loaders live. Two kinds of processes are asked beside it:
// the children that a process is blocked waiting for (a shell that runs one command passes no signal on), and
// those that a process which was asked has left behind.
#pragma once

#include "rendezvous/base/process_stat.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace muster::agent {

/// Which children a process is blocked waiting for. Value type.
struct ChildWait {
  enum class Kind {
    unreadable,  ///< the kernel does not show it to us
    none,        ///< the process waits for something else, or runs
    one,         ///< the process waits for the child `pid`
    group,       ///< the process waits for its children in the process group `pid`
    any,         ///< the process waits for any child
  };
  Kind kind = Kind::none;
  pid_t pid = 0;

  bool covers(const ProcessStat& child) const;
  bool operator==(const ChildWait&) const = default;
};

/// What a process does with signals, bit n - 1 for signal n. Value type.
struct SignalSets {
  std::uint64_t ignored = 0;
  std::uint64_t caught = 0;

  bool ignores(int signal) const { return (ignored >> (signal - 1) & 1U) != 0; }

  bool catches(int signal) const { return (caught >> (signal - 1) & 1U) != 0; }
};

/// Callbacks that look at a process now.
using WaitOf = std::function<ChildWait(const ProcessStat&)>;
using SetsOf = std::function<std::optional<SignalSets>(const ProcessStat&)>;

/// Returns who gets a signal that is a notice and no order to end: `worker`, if it catches it; else the
/// children that it waits for, each asked likewise. Empty if nobody below handles it. `tree` holds the
/// descendants of the agent.
std::vector<ProcessStat> notice_route(const ProcessStat& worker, int signal,
                                      const std::vector<ProcessStat>& tree, const WaitOf& wait_of,
                                      const SetsOf& sets_of);

/// Finds the way of the stop signals of one round. Pure but for `wait_of` and `sets_of`. Used from one
/// thread.
class StopRoute {
 public:
  struct Delivery {
    ProcessStat to;
    int signal = 0;
    /// Whether the signal goes to the whole process group that `to` leads, because what `to` waits for cannot
    /// be seen.
    bool group = false;
    /// Whether `to` was left running by workers that have all ended, and is told for that reason alone.
    bool leftover = false;
  };

  /// `agent` is the process that adopts what loses its parent.
  StopRoute(pid_t agent, WaitOf wait_of, SetsOf sets_of)
      : agent_(agent), wait_of_(std::move(wait_of)), sets_of_(std::move(sets_of)) {}

  /// Begins a stop, or goes on with another signal: `workers` are those that live, `tree` the descendants of
  /// the agent, `now` the clock ticks since boot. A process that started after the stop began is what
  /// somebody who was told uses to clean up.
  std::vector<Delivery> stop(int signal, const std::vector<ProcessStat>& workers,
                             const std::vector<ProcessStat>& tree, std::uint64_t now);

  /// Returns what is to be told since the last look; each process is told a signal once. `all_ended` says
  /// that no worker lives, so that what runs has been left.
  std::vector<Delivery> look(const std::vector<ProcessStat>& workers, const std::vector<ProcessStat>& tree,
                             bool all_ended);

  /// Returns those of `tree` that stand for a worker: they were told because their parent waited for them.
  std::vector<ProcessStat> stand_ins(const std::vector<ProcessStat>& tree) const;

  /// Whether a process was told anything.
  bool told(const ProcessStat& process) const { return told_.count(id_of(process)) != 0; }

 private:
  /// A process by pid and start time, because pids are used again.
  using Id = std::pair<pid_t, std::uint64_t>;

  struct Told {
    /// The signals that the process was told: bit n for signal n.
    std::uint64_t signals = 0;
    int last = 0;
    /// Whether the process is a worker, or its parent waited for it.
    bool asked_as_worker = false;
  };

  static Id id_of(const ProcessStat& process) { return {process.pid, process.start_time}; }

  /// Tells a process a signal, and those that it waits for. `as_worker` says that it is a worker, or stands
  /// for one.
  void ask(const ProcessStat& process, int signal, bool as_worker, const std::vector<ProcessStat>& tree,
           std::vector<Delivery>& out);
  void ask_awaited(const ProcessStat& parent, int signal, bool as_worker, const ChildWait& wait,
                   const std::vector<ProcessStat>& tree, std::vector<Delivery>& out);
  /// Adds the delivery of a signal; returns whether the process had not been told this signal.
  bool deliver(const ProcessStat& process, int signal, bool as_worker, std::vector<Delivery>& out);
  bool left_by_told(const ProcessStat& orphan, const std::vector<ProcessStat>& workers) const;
  void remember_children(const std::vector<ProcessStat>& tree);

  pid_t agent_;
  WaitOf wait_of_;
  SetsOf sets_of_;
  int signal_ = 0;
  std::uint64_t began_ = 0;
  std::map<Id, Told> told_;
  /// Children of processes that were told, as far as they were seen with them.
  std::set<Id> children_of_told_;
  /// The sessions that workers lead, by which their orphans are known.
  std::map<pid_t, Id> sessions_;
};

}  // namespace muster::agent
