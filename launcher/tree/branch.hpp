// SPDX-License-Identifier: Apache-2.0
// `muster branch`: a host that starts other hosts for the launcher (--ssh-tree).
#pragma once

#include "agent/process/signal_state.hpp"

#include <string>

namespace muster::launcher {

struct BranchOptions {
  /// Ours; hosts with another one are reported as such.
  std::string version;
  agent::SignalState signals;
};

/// Body of the process, with the login's ends as stdin and stdout: greets as an agent does, forks the agent
/// of this host, takes the plan, and carries bytes between the launcher and all nodes of the plan until stdin
/// ends, a signal asks it to end, or all of them have ended. Then whatever it has started is cut off, as by a
/// lost login; agents go on or end by their own rules. Returns the exit code.
int run_branch(const BranchOptions& options);

}  // namespace muster::launcher
