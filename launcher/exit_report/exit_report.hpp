// SPDX-License-Identifier: Apache-2.0
// The verdict on a job: one pure function from what was seen to what is said. Nothing here does I/O.
#pragma once

#include "agent/core/node_report.hpp"
#include "launcher/core/job_end.hpp"
#include "launcher/core/job_spec.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

enum class JobOutcome {
  succeeded,       ///< every worker ended with 0
  failed,          ///< a worker failed by itself or could not be started: `root` says which
  interrupted,     ///< the job was ended by a signal to the launcher
  deadline,        ///< the job was ended by --timeout
  launcher_error,  ///< something of ours failed: `error` says what
};

struct ExitReport {
  JobOutcome outcome = JobOutcome::succeeded;
  int exit_code = 0;
  /// The program or script, as given.
  std::string program;
  std::string run_id;
  /// Arguments and version as JobSpec has them.
  std::vector<std::string> arguments;
  std::string version;
  JobTimes times;
  /// Why the job ended, in one sentence without the program: "rank 1 on node7: killed by SIGSEGV".
  std::string cause;
  /// Whether `cause` says the last decision, where that is_cause.
  bool cause_says_decision = false;
  /// What to do next; may be empty.
  std::string advice;
  /// The worker that failed first, whatever ended the job: index into `nodes` and into its workers; -1: none.
  int root_node = -1;
  int root_worker = -1;
  /// The verdict on a hang that held when the job began to end, or shortly before; of a job that failed or
  /// was ended.
  agent::HangReport hang;
  /// Which ranks were slow when the last round ended; empty: none.
  std::string slow;
  /// In which collectives the ranks of the last round do not match, by NCCL's flight recorder.
  std::vector<std::string> flight_record;
  /// The log directory; empty when there are no log files.
  std::string log_dir;
  /// Hosts on which no agent could be started, or whose agent was lost; as JobEnd has them.
  std::vector<HostFailure> hosts;
  /// Nodes that were told to work and did not report.
  std::vector<std::string> unreported;
  /// The launcher's notes; each node has its own.
  std::vector<std::string> notes;
  /// Whether no worker was started, because of `hosts`.
  bool not_started = false;
  /// The nodes' reports, in the order in which they arrived at the launcher.
  std::vector<agent::NodeReport> nodes;
  rendezvous::RestartRule restart_policy = rendezvous::RestartRule::backoff;
  /// What the coordinator decided at the ends of rounds, one for each round, the oldest first.
  std::vector<agent::RestartDecision> decisions;

  /// Returns the restarts of the whole job; every node knows their number as of its last round.
  int restarts() const;

  const agent::WorkerReport* root() const {
    if (root_node < 0) return nullptr;
    return &nodes[static_cast<std::size_t>(root_node)].workers[static_cast<std::size_t>(root_worker)];
  }
};

/// Makes the verdict. The root cause is a worker that could not be started, else the failed worker whose exit
/// arrived first at its agent; of several nodes on the one whose failure ended the round, as the coordinator
/// saw it. Exit codes as in exit_code.hpp; whatever ended the job early (a signal, the deadline, an error of
/// ours) decides over what workers did afterwards.
ExitReport make_exit_report(const JobSpec& spec, const std::vector<agent::NodeReport>& reports,
                            const JobEnd& end);

/// Whether every node that the job needed has reported, and its workers ended well. A job of --nnodes MIN:MAX
/// can do without nodes that took no part in its last round, whatever became of them.
bool all_succeeded(const JobSpec& spec, const std::vector<agent::NodeReport>& reports,
                   const std::vector<HostFailure>& hosts);

/// Whether a worker had failed for good before the nodes got an order to end, while they were still ending
/// what it had left.
bool failed_before_order(const std::vector<agent::NodeReport>& reports);

}  // namespace muster::launcher
