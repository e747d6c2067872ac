// SPDX-License-Identifier: Apache-2.0
// 'muster run': from the command line to the exit code.
#pragma once

#include "agent/process/signal_state.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

/// Takes the arguments after the command's name. `at_start` is how signals and limits were before main()
/// changed any: what the user's programs get. Returns an exit code, or throws LaunchError.
int run_command(const std::vector<std::string>& arguments, const agent::SignalState& at_start);

}  // namespace muster::launcher
