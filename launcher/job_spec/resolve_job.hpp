// SPDX-License-Identifier: Apache-2.0
// Makes the validated job out of the command line and what the machine says.
#pragma once

#include "launcher/cli/cli_options.hpp"
#include "launcher/core/job_spec.hpp"
#include "launcher/job_spec/system.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

struct ResolvedJob {
  JobSpec spec;
  /// One-line notices for the user: what was decided for them or had no effect.
  std::vector<std::string> notices;
  /// Notices for --log-level info: what has no effect and does no harm.
  std::vector<std::string> details;
};

/// Judges the options together and against the machine. Leaves nothing behind: spec.agent.output.log_dir is a
/// name that ends in XXXXXX until create_log_directory() makes it. Throws LaunchError (2; 126 and 127 for the
/// program).
ResolvedJob resolve_job(const CliOptions& options, const System& system);

}  // namespace muster::launcher
