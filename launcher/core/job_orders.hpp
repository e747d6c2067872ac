// SPDX-License-Identifier: Apache-2.0
// How the launcher ends a job, as a pure state machine: signals, the deadline and the ends of nodes in,
// actions out.
#pragma once

#include "launcher/core/job_end.hpp"

#include <chrono>
#include <optional>

namespace muster::launcher {

/// What the shell has to do now, in the order of the members.
struct JobActions {
  /// Give up a reader of our output that takes nothing for a while.
  bool hurry_output = false;
  /// Drop output that is not written yet.
  bool drop_output = false;
  /// Tell the nodes to end in an orderly way, with this signal for the workers. 0: do not.
  int stop_signal = 0;
  /// Tell the nodes to end without grace.
  bool kill = false;
  /// End what is left of the nodes without asking them.
  bool cut_all = false;
  /// Wait for no node any more.
  bool finish = false;
  /// Call late() after this time, and not after that of an earlier action.
  std::optional<std::chrono::milliseconds> late_after{};
  bool operator==(const JobActions&) const = default;
};

/// The first order to end is the cause that is reported. One Ctrl-C asks for an orderly end, a second one for
/// an end without grace; with a third one the launcher leaves, and guardians that it cannot reach clean up by
/// themselves. One thread.
class JobOrders {
 public:
  /// After the grace period every agent has killed everything and reports; one that does not is stuck.
  static constexpr std::chrono::seconds kReportLateAfter{20};
  /// A second Ctrl-C ends everything within a second, with or without the agents' help.
  static constexpr std::chrono::milliseconds kKillLateAfter{500};
  /// Between a node's report and the end of its guardian, which still looks for leftovers.
  static constexpr std::chrono::seconds kGuardianLateAfter{15};
  /// For the clients of nodes that were cut off, to end.
  static constexpr std::chrono::milliseconds kCutLateAfter{3000};

  /// `grace`: what workers have between the stop signal and KILL.
  explicit JobOrders(std::chrono::milliseconds grace) : report_late_after_(grace + kReportLateAfter) {}

  /// The launcher was sent one of the signals that end a job. Only SIGINT is counted: others come twice by
  /// themselves (a closed terminal sends SIGHUP twice).
  JobActions signalled(int number);
  JobActions deadline_passed();
  /// A node has failed, and the others end because of that, without an order of ours.
  JobActions node_failed();
  /// Every node has reported, and its guardian is about to end.
  JobActions reported();
  /// No node is left to wait for.
  JobActions nodes_ended();
  /// The time of the last `late_after` has passed.
  JobActions late();

  /// With cause and signal of an order to end, if there was one.
  const JobEnd& end() const { return end_; }

 private:
  enum class Phase { running, ending, killing, cutting, finished };

  JobActions hurry() const;
  /// Unless the nodes are told already to end without grace. `signal` 0: they end by themselves.
  void stop(int signal, JobActions& actions);

  std::chrono::milliseconds report_late_after_;
  Phase phase_ = Phase::running;
  int interrupts_ = 0;
  JobEnd end_;
};

}  // namespace muster::launcher
