// SPDX-License-Identifier: Apache-2.0
// How the launcher ends a job, as a pure state machine: signals, the deadline and the ends of nodes in,
// actions out.
#pragma once

#include "launcher/core/job_end.hpp"

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>

namespace muster::launcher {

/// What the shell has to do now, in the order of the members.
struct JobActions {
  /// Give up a reader of our output that takes nothing for a while.
  bool hurry_output = false;
  /// Drop output that is not written yet.
  bool drop_output = false;
  /// Tell the nodes to end in an orderly way, with this signal for the workers. 0: do not.
  int stop_signal = 0;
  /// Why, for the workers, where the signal does not say it.
  std::string_view stop_reason{};
  /// The grace period of that order, if it has one of its own.
  std::optional<std::chrono::milliseconds> grace{};
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

/// An order to end the job, by a signal or by somebody at another shell.
struct EndRequest {
  /// For the workers, and for the exit code.
  int signal = SIGTERM;
  /// End without grace, as a second Ctrl-C does.
  bool now = false;
  /// What workers have between the stop signal and KILL, in place of --shutdown-timeout. A stop that has
  /// begun gets no longer by it.
  std::optional<std::chrono::milliseconds> grace{};
  /// Who asks, as JobEnd::by; empty: the signal was sent to the launcher.
  std::string by{};
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

  /// Time for what the launcher does when no node is left: the rest of the output, leftovers, the report.
  static constexpr std::chrono::seconds kLastStepsAtMost{20};

  /// `grace` is what workers have between the stop signal and KILL.
  explicit JobOrders(std::chrono::milliseconds grace)
      : grace_(grace), report_late_after_(grace + kReportLateAfter) {}

  /// Takes a signal that ends a job, which was sent to the launcher. Only SIGINT is counted: others come
  /// twice by themselves (a closed terminal sends SIGHUP twice).
  JobActions signalled(int number) { return asked({.signal = number}); }

  /// Takes the same from somebody at another shell. However often that asks for an end without grace, the
  /// launcher does not leave for it before everything has ended.
  JobActions asked(const EndRequest& request);
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

  /// Returns the time within which the whole job, launcher included, has ended after an order.
  std::chrono::milliseconds ends_within() const {
    return report_late_after_ + kGuardianLateAfter + kCutLateAfter + kLastStepsAtMost;
  }

  /// Returns the end of the job, with cause and signal of an order to end, if there was one.
  const JobEnd& end() const { return end_; }

 private:
  enum class Phase { running, ending, killing, cutting, finished };

  JobActions hurry() const;
  /// Begins an orderly end, unless the nodes are told already to end without grace. `signal` is 0 if they end
  /// by themselves.
  void stop(int signal, JobActions& actions);

  std::chrono::milliseconds grace_;
  std::chrono::milliseconds report_late_after_;
  Phase phase_ = Phase::running;
  int interrupts_ = 0;
  JobEnd end_;
};

}  // namespace muster::launcher
