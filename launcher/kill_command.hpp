// SPDX-License-Identifier: Apache-2.0
// The command that ends running jobs of this user on this host, or sends their workers a signal.
#pragma once

#include <string>
#include <vector>

namespace muster::launcher {

/// Runs `muster kill` with the arguments behind it. Blocks until the job has ended, or the signal was
/// delivered. Returns the exit code; throws UsageError and LaunchError.
int kill_command(const std::vector<std::string>& arguments);

}  // namespace muster::launcher
