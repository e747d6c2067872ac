// SPDX-License-Identifier: Apache-2.0
// Starts agents on other hosts: by one process of a client program, ssh or srun, for each node.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/core/node_plan.hpp"
#include "launcher/start/core/ssh_failure.hpp"
#include "launcher/start/remote_start.hpp"
#include "launcher/start/started_process.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace muster::launcher {

/// Nodes are numbers: places in JobSpec::nodes. Whatever it starts ends up as `muster agent`
/// (agent/started_node.hpp) whose streams are those of the process on this host; that greets, and ends at the
/// end of its stdin.
class NodeStarter {
 public:
  virtual ~NodeStarter() = default;
  NodeStarter(const NodeStarter&) = delete;
  NodeStarter& operator=(const NodeStarter&) = delete;

  /// Begins to start the agent of `node`; does not wait. May be called again after a failure. Throws
  /// LaunchError.
  StartedProcess start(std::size_t node) { return spawn_client(arguments(node), signals_, defaults_); }

  /// Names the login server of a node: nodes with the same text are let in by one server, which sees only a
  /// few of them at a time.
  virtual std::string server(std::size_t node) const = 0;
  /// Says why a start failed.
  virtual StartFailure explain(std::size_t node, const StartEnd& end) const = 0;

  /// Returns path of the executable that is sent to a host that asks for it ("\nmuster-push 1 SIZE\n" before
  /// the greeting); empty: none is.
  const std::string& push_file() const { return remote_.push_file; }

 protected:
  /// `defaults` is what spawn_client() takes, `shell_stays` what remote_start() takes.
  NodeStarter(const std::vector<NodePlan>& nodes, const RemoteOptions& options, const std::string& version,
              const agent::SignalState& signals, bool shell_stays, std::vector<std::string> defaults);

  /// Returns the command line for one node. Throws LaunchError (usage).
  virtual std::vector<std::string> arguments(std::size_t node) const = 0;

  const std::vector<NodePlan>& nodes_;
  const RemoteStart remote_;
  const std::string version_;

 private:
  agent::SignalState signals_;
  std::vector<std::string> defaults_;
};

/// Makes a starter that uses the system's SSH client. `nodes` must live as long as the starter; `version` is
/// ours. Throws LaunchError (usage) for a --remote-muster that cannot be passed on, or an executable of ours
/// that cannot be read for --push.
std::unique_ptr<NodeStarter> make_ssh_starter(const std::vector<NodePlan>& nodes,
                                              const RemoteOptions& options, const std::string& version,
                                              const agent::SignalState& signals);

/// Makes a starter that uses srun, inside an allocation of Slurm. The names of `nodes` are those of Slurm.
/// Otherwise it is like make_ssh_starter().
std::unique_ptr<NodeStarter> make_srun_starter(const std::vector<NodePlan>& nodes,
                                               const RemoteOptions& options, const std::string& version,
                                               const agent::SignalState& signals);

}  // namespace muster::launcher
