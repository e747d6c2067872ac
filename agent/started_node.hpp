// SPDX-License-Identifier: Apache-2.0
// `muster agent`: the life of a node that a launcher elsewhere started.
#pragma once

#include "agent/process/signal_state.hpp"

#include <string>

namespace muster::agent {

struct StartedNodeOptions {
  /// The link to the launcher: ssh's ends (0 and 1), or one socket for both. Every other descriptor from 3 up
  /// is closed.
  int in_fd = 0;
  int out_fd = 1;
  /// "0.1.0", for greeting and hello.
  std::string version;
  /// How signals were set when this process was started; in a fork of the launcher, the settings that its
  /// workers get.
  SignalState signals;
};

/// Body of the process, which becomes the guardian of its node: greets, takes key and spec from the link
/// (with a deadline), opens the coordinator's socket if this is its node, forks the rendezvous daemon and the
/// agent, and returns when no process below it is left. Returns the exit code. An error before there is an
/// agent is sent as one `notice` on the link.
int run_started_node(const StartedNodeOptions& options);

}  // namespace muster::agent
