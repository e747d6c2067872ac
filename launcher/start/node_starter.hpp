// SPDX-License-Identifier: Apache-2.0
// How agents are started on other hosts: by ssh, by srun, or (this host) by a fork.
#pragma once

#include "launcher/start/core/ssh_failure.hpp"
#include "launcher/start/started_process.hpp"

#include <cstddef>
#include <string>

namespace muster::launcher {

/// Nodes are numbers: places in JobSpec::nodes. Whatever it starts ends up as `muster agent`
/// (agent/remote_node.hpp) whose streams are those of the process on this host; that greets, and ends at the
/// end of its stdin.
class NodeStarter {
 public:
  NodeStarter() = default;
  virtual ~NodeStarter() = default;
  NodeStarter(const NodeStarter&) = delete;
  NodeStarter& operator=(const NodeStarter&) = delete;

  /// Begins to start the agent of `node`; does not wait. May be called again after a failure. Throws
  /// LaunchError.
  virtual StartedProcess start(std::size_t node) = 0;

  /// Nodes with the same text are let in by one login server, which sees only a few of them at a time.
  virtual std::string server(std::size_t node) const = 0;

  /// Says why a start failed.
  virtual StartFailure explain(std::size_t node, const StartEnd& end) const = 0;

  /// Path of the executable that is sent to a host that asks for it ("\nmuster-push 1 SIZE\n" before the
  /// greeting); empty: none is.
  virtual std::string push_file() const { return {}; }
};

}  // namespace muster::launcher
