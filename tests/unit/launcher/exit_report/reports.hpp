// SPDX-License-Identifier: Apache-2.0
// Node reports as tests need them.
#pragma once

#include "launcher/exit_report/exit_report.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

inline agent::WorkerReport worker(int rank, agent::WorkerOutcome outcome, agent::ExitStatus status,
                                  int arrival) {
  agent::WorkerReport report;
  report.rank = report.local_rank = rank;
  report.pid = 100 + rank;
  report.host = "node7";
  report.outcome = outcome;
  report.status = status;
  report.arrival = arrival;
  return report;
}

inline agent::ExitStatus exited(int code) {
  return {agent::ExitStatus::Kind::exited, code, false};
}

inline agent::ExitStatus killed_by(int signal, bool core = false) {
  return {agent::ExitStatus::Kind::signaled, signal, core};
}

inline agent::NodeReport node(agent::NodeOutcome outcome, std::vector<agent::WorkerReport> workers) {
  agent::NodeReport report;
  report.host = "node7";
  report.outcome = outcome;
  report.workers = std::move(workers);
  return report;
}

inline JobSpec job() {
  JobSpec spec;
  spec.agent.run_id = "job1";
  spec.agent.command = {"python3", "-u", "train.py", "--epochs"};
  spec.agent.first_script_argument = 3;
  return spec;
}

}  // namespace muster::launcher
