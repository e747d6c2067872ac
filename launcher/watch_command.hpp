// SPDX-License-Identifier: Apache-2.0
// `muster status --watch`: looks at a running job again and again.
#pragma once

#include "agent/core/node_status.hpp"
#include "launcher/cli/inspect_options.hpp"
#include "launcher/inspect/job_folder.hpp"

#include <string>

namespace muster::launcher {

/// Shows what the job answers, each *options.watch, until it has ended, or until SIGINT, SIGTERM, SIGHUP or
/// SIGQUIT comes, which this process gets for itself from then on. `line` is the answer to `query` that came
/// first. On a terminal one picture changes, and the last one stays when the job has ended. Returns the exit
/// code, 0. Throws LaunchError if stdout takes nothing, and std::invalid_argument for an answer that is none.
int watch_job(const FoundJob& job, const agent::NodeQuery& query, const InspectOptions& options,
              const std::string& line);

}  // namespace muster::launcher
