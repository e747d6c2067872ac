// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each takes the arguments after its name and returns an exit code, or throws LaunchError.
#pragma once

#include <string>
#include <vector>

namespace muster::launcher {

int agent_command(const std::vector<std::string>& arguments);
int branch_command(const std::vector<std::string>& arguments);
int run_command(const std::vector<std::string>& arguments);
int rendezvous_command(const std::vector<std::string>& arguments);

}  // namespace muster::launcher
