// SPDX-License-Identifier: Apache-2.0
// `muster run --detach`: starts a job that goes on without us and without a terminal.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/core/job_spec.hpp"

#include <functional>
#include <string>

namespace muster::launcher {

/// Runs a job in the process that calls it; returns the exit code, or throws LaunchError.
using RunJob = std::function<int(JobSpec, const agent::SignalState&)>;

/// Starts a process that has no terminal, whose stdin is the null device and whose output goes to the console
/// of the job, and has it run the job. The console is below `log_dir`, or, if that is empty, in
/// folder_of_consoles(). Returns 0 as soon as every worker has been started and has run for a moment, or the
/// exit code of a job that ended before; what that has printed is shown then. Throws LaunchError, and leaves
/// nothing, where the job cannot even be begun. Call it while there is one thread.
int run_detached(JobSpec spec, const std::string& log_dir, const agent::SignalState& at_start,
                 const RunJob& run);

}  // namespace muster::launcher
