// SPDX-License-Identifier: Apache-2.0
// Runs one job, from the start of its nodes to the report.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/metrics/metrics_socket.hpp"

namespace muster::launcher {

struct JobSpec;

/// Runs the job to its end and returns the exit code of `muster run` (base/exit_code.hpp). Starts the nodes,
/// passes signals on, enforces the deadline, and ends with finish_job() (exit_report/finish_job.hpp), which
/// prints and writes the report. Blocks; called once, from the main thread, before any other thread exists.
/// Failures of our own are reported on stderr and by the code 125; only a form that cannot be prepared throws
/// LaunchError. Workers get signals and limits as they were `at_start`. `metrics` is the socket for
/// JobSpec::metrics_listen.
int run_job(const JobSpec& spec, const agent::SignalState& at_start, MetricsSocket metrics);

}  // namespace muster::launcher
