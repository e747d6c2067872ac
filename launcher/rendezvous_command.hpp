// SPDX-License-Identifier: Apache-2.0
// 'muster rendezvous': the daemon at which the nodes of several jobs meet.
#pragma once

#include <string>
#include <vector>

namespace muster::launcher {

/// Takes the arguments after the command's name; returns an exit code, or throws LaunchError.
int rendezvous_command(const std::vector<std::string>& arguments);

}  // namespace muster::launcher
