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
/// themselves. Used from one thread.
class JobOrders {
 public:
  /// Time for the reports after the grace period: by then every agent has killed everything, and one that
  /// does not report is stuck.
  static constexpr std::chrono::seconds kReportLateAfter{20};
  /// Time after a second Ctrl-C until nodes are cut off, since everything has to end within a second, with or
  /// without the agents' help.
  static constexpr std::chrono::milliseconds kKillLateAfter{500};
  /// Time between a node's report and the end of its guardian, which still looks for leftovers.
  static constexpr std::chrono::seconds kGuardianLateAfter{15};
  /// Time for the clients of nodes that were cut off to end.
  static constexpr std::chrono::milliseconds kCutLateAfter{3000};

  /// `grace` is what workers have between the stop signal and KILL.
  explicit JobOrders(std::chrono::milliseconds grace) : report_late_after_(grace + kReportLateAfter) {}

  /// Takes a signal that ends a job, which was sent to the launcher. Only SIGINT is counted: others come
  /// twice by themselves (a closed terminal sends SIGHUP twice).
  JobActions signalled(int number);
  JobActions deadline_passed();
  /// Takes the news that a node has failed, and that the others end because of that, without an order of
  /// ours.
  JobActions node_failed();
  /// Takes the news that every node has reported, and its guardian is about to end.
  JobActions reported();
  /// Takes the news that no node is left to wait for.
  JobActions nodes_ended();
  /// Takes the news that the time of the last `late_after` has passed.
  JobActions late();

  /// Returns the end of the job, with cause and signal of an order to end, if there was one.
  const JobEnd& end() const { return end_; }

 private:
  enum class Phase { running, ending, killing, cutting, finished };

  JobActions hurry() const;
  /// Begins an orderly end, unless the nodes are told already to end without grace. `signal` is 0 if they end
  /// by themselves.
  void stop(int signal, JobActions& actions);

  std::chrono::milliseconds report_late_after_;
  Phase phase_ = Phase::running;
  int interrupts_ = 0;
  JobEnd end_;
};

}  // namespace muster::launcher
