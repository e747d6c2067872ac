// SPDX-License-Identifier: Apache-2.0
// The commands that look at running jobs of this user on this host.
#pragma once

#include <string>
#include <vector>

namespace muster::launcher {

/// Exit codes of these commands besides 0 and 2 (usage).
inline constexpr int kExitNoSuchJob = 1;
inline constexpr int kExitNotRunning = 3;

/// Whether `command` is one of them.
bool is_inspect_command(const std::string& command);

/// Runs `muster ps`, `muster status` or `muster stacks` with the arguments behind it. Returns the exit code;
/// throws UsageError and LaunchError.
int inspect_command(const std::string& command, const std::vector<std::string>& arguments);

}  // namespace muster::launcher
