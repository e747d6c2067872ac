// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each takes the arguments after its name and returns an exit code, or throws LaunchError.
// `at_start` is how signals and limits were before main() changed any: what the user's programs get.
#pragma once

#include "agent/process/signal_state.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

int agent_command(const std::vector<std::string>& arguments, const agent::SignalState& at_start);
int run_command(const std::vector<std::string>& arguments, const agent::SignalState& at_start);
int rendezvous_command(const std::vector<std::string>& arguments);

}  // namespace muster::launcher
