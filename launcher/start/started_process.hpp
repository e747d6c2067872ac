// SPDX-License-Identifier: Apache-2.0
// A process of this host through which an agent elsewhere is reached: an ssh, an srun, or the agent itself.
#pragma once

#include "agent/process/signal_state.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace muster::launcher {

struct StartedProcess {
  pid_t pid = -1;
  /// A descriptor that is readable when the process is gone.
  UniqueFd pidfd;
  /// The process's standard input, to write, and its standard output, to read.
  UniqueFd in;
  UniqueFd out;
  /// The process's standard error, to read; invalid if that is ours.
  UniqueFd err;
  /// Whether the process leads to the agent and may be killed; otherwise it is the agent's guardian, which
  /// ends by itself when its link is closed, and cleans up.
  bool is_client = true;
};

/// Starts a program by its name or path: in a session of its own, so that neither Ctrl-C nor a question on
/// the terminal reaches it, killed when the calling thread dies, with pipes as its three streams and no other
/// descriptor. Costs little more than the system calls (vfork). Throws LaunchError, naming the program, if it
/// cannot be run. `defaults` holds "NAME=VALUE" for names that our environment does not have.
StartedProcess spawn_client(const std::vector<std::string>& arguments, const agent::SignalState& signals,
                            const std::vector<std::string>& defaults = {});

}  // namespace muster::launcher
