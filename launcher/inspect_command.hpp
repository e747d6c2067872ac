// SPDX-License-Identifier: Apache-2.0
// The commands that look at jobs of this user on this host, and remove what ended ones have left.
#pragma once

#include "agent/process/signal_state.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

/// Whether `command` is one of them.
bool is_inspect_command(const std::string& command);

/// Runs `muster ps`, `muster status`, `muster stacks` or `muster clean` with the arguments behind it. Returns
/// the exit code; throws UsageError and LaunchError.
int inspect_command(const std::string& command, const std::vector<std::string>& arguments,
                    const agent::SignalState& at_start);

}  // namespace muster::launcher
