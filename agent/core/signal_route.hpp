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
    none,        ///< it waits for something else, or runs
    one,         ///< for the child `pid`
    group,       ///< for its children in the process group `pid`
    any,         ///< for any child
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

/// Looks at a process now.
using WaitOf = std::function<ChildWait(const ProcessStat&)>;
using SetsOf = std::function<std::optional<SignalSets>(const ProcessStat&)>;

/// Who gets a signal that is a notice and no order to end: `worker`, if it catches it; else the children that
/// it waits for, each asked likewise. Empty if nobody below handles it. `tree` holds the descendants of the
/// agent.
std::vector<ProcessStat> notice_route(const ProcessStat& worker, int signal,
                                      const std::vector<ProcessStat>& tree, const WaitOf& wait_of,
                                      const SetsOf& sets_of);

/// The way of the stop signals of one round. Pure but for `wait_of` and `sets_of`. One thread.
class StopRoute {
 public:
  struct Delivery {
    ProcessStat to;
    int signal = 0;
    /// To the whole process group that `to` leads: what it waits for cannot be seen.
    bool group = false;
    /// Left running by workers that have all ended, and told for that reason alone.
    bool leftover = false;
  };

  /// `agent`: who adopts what loses its parent.
  StopRoute(pid_t agent, WaitOf wait_of, SetsOf sets_of)
      : agent_(agent), wait_of_(std::move(wait_of)), sets_of_(std::move(sets_of)) {}

  /// A stop begins, or goes on with another signal: `workers` are those that live, `tree` the descendants of
  /// the agent, `now` the clock ticks since boot. A process that started later is what somebody who was told
  /// uses to clean up.
  std::vector<Delivery> stop(int signal, const std::vector<ProcessStat>& workers,
                             const std::vector<ProcessStat>& tree, std::uint64_t now);

  /// What is to be told since the last look; each process is told a signal once. `all_ended`: no worker
  /// lives, and what runs has been left.
  std::vector<Delivery> look(const std::vector<ProcessStat>& workers, const std::vector<ProcessStat>& tree,
                             bool all_ended);

  /// Those of `tree` that stand for a worker: they were told because their parent waited for them.
  std::vector<ProcessStat> stand_ins(const std::vector<ProcessStat>& tree) const;

  /// Whether a process was told anything.
  bool told(const ProcessStat& process) const { return told_.count(id_of(process)) != 0; }

 private:
  /// Pid and start time: pids are used again.
  using Id = std::pair<pid_t, std::uint64_t>;

  struct Told {
    /// Bit n for signal n.
    std::uint64_t signals = 0;
    int last = 0;
    /// It is a worker, or its parent waited for it.
    bool asked_as_worker = false;
  };

  static Id id_of(const ProcessStat& process) { return {process.pid, process.start_time}; }

  /// `as_worker`: of a worker, or of a process that stands for one.
  void ask(const ProcessStat& process, int signal, bool as_worker, const std::vector<ProcessStat>& tree,
           std::vector<Delivery>& out);
  void ask_awaited(const ProcessStat& parent, int signal, bool as_worker, const ChildWait& wait,
                   const std::vector<ProcessStat>& tree, std::vector<Delivery>& out);
  /// Returns whether the process had not been told this signal.
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
  /// Workers lead sessions of their own, by which their orphans are known.
  std::map<pid_t, Id> sessions_;
};

}  // namespace muster::agent
