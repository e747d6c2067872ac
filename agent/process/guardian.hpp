// SPDX-License-Identifier: Apache-2.0
// The process between launcher and agent: it outlives whichever of them is killed, long enough to end what is
// left.
#pragma once

#include "agent/core/link_message.hpp"
#include "agent/process/signal_state.hpp"

#include <chrono>
#include <functional>
#include <string>

namespace muster::agent {

struct GuardianOptions {
  /// Refers to the launcher; readable when it is gone. Opened by the launcher on itself before it forked, so
  /// that there is no moment at which its death could be missed. -1: the launcher is elsewhere.
  int launcher_pidfd = -1;
  /// The connection to a launcher elsewhere: its end means that the launcher is gone, or the way to it.
  /// Nothing is read from it. -1: none.
  int lifeline_fd = -1;
  /// A descriptor on which a byte comes when the agent has another way to the launcher, or has found out that
  /// the launcher still lives: the end of lifeline_fd means nothing from then on. -1: none.
  int go_on_fd = -1;
  /// Called for each of our processes that died without being told to, was stopped or goes on. Once the
  /// agent is lost nobody but the guardian speaks for the node. Never empty.
  std::function<void(LinkMessage::Notice kind, const std::string& text)> notice;
  /// Text in notices that says whose our processes are: " of n2"; may be empty.
  std::string of_node;
  /// How long the store process may serve the other nodes after the agent has ended. 0: there are no other
  /// nodes, and it is killed at once.
  std::chrono::milliseconds store_may_outlive{0};
  /// The agent's own grace period; it gets this long, and a little more, after the launcher is gone.
  std::chrono::milliseconds shutdown_timeout{0};
  /// An agent that is stopped for longer is taken for dead by the other nodes, and killed with its workers.
  /// 0: there are no others, and it may stay stopped until the job has to end.
  std::chrono::milliseconds stopped_at_most{0};
  /// Time after which a stopped store process is killed. It is shorter than the agent's, so that all nodes
  /// are told of the store's end before they miss it.
  std::chrono::milliseconds store_stopped_at_most{0};
  /// The settings of signals with which the agent and the store process start.
  SignalState signals;
};

/// Body of a process that the guardian forks. `control_fd` is its end of the connection between agent and
/// store process; `guardian_pidfd` is readable when the guardian is gone. Returns the exit code.
using ProcessMain = std::function<int(int control_fd, int guardian_pidfd)>;

/// Body of the guardian; call it in a fresh fork of the launcher, or in `muster agent`, without threads.
/// Forks the store process (none if `store_main` is empty; the agent's control_fd is -1 then) and the agent,
/// calls `after_start`, waits for the agent, and returns when no process below it is left. Returns the
/// agent's exit code. Throws std::exception before anything is forked, as when there is no usable /proc.
int run_guardian(const GuardianOptions& options, const ProcessMain& store_main, const ProcessMain& agent_main,
                 const std::function<void()>& after_start);

/// Lets a guardian that is stopped go on, and whichever of its processes is stopped, since it passes the
/// signal on. Launcher and agent call this when the job cannot end without them.
void continue_guardian(int guardian_pidfd);

}  // namespace muster::agent
