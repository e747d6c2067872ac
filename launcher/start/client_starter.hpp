// SPDX-License-Identifier: Apache-2.0
// What ssh and srun have in common as starters: one process of a client program for each node.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/core/node_plan.hpp"
#include "launcher/start/node_starter.hpp"
#include "launcher/start/remote_start.hpp"

#include <string>
#include <utility>
#include <vector>

namespace muster::launcher {

class ClientStarter : public NodeStarter {
 public:
  StartedProcess start(std::size_t node) override {
    return spawn_client(arguments(node), signals_, defaults_);
  }

  std::string push_file() const override { return remote_.push_file; }

  /// The command line for one node, as it would be run. Throws LaunchError (usage).
  virtual std::vector<std::string> arguments(std::size_t node) const = 0;

 protected:
  /// `nodes` must live as long as this. `version` is ours. Throws LaunchError (usage) for a --remote-muster
  /// that cannot be passed on, or an executable of ours that cannot be read for --push. `defaults`: as
  /// spawn_client() has it. `shell_stays`: as remote_start() has it.
  ClientStarter(const std::vector<NodePlan>& nodes, const RemoteOptions& options, std::string version,
                const agent::SignalState& signals, bool shell_stays, std::vector<std::string> defaults = {})
      : nodes_(nodes),
        remote_(remote_start(options, version, shell_stays)),
        version_(std::move(version)),
        signals_(signals),
        defaults_(std::move(defaults)) {}

  const NodePlan& plan(std::size_t node) const { return nodes_[node]; }

  const std::string& remote_command() const { return remote_.command; }

  const std::string& version() const { return version_; }

 private:
  const std::vector<NodePlan>& nodes_;
  RemoteStart remote_;
  std::string version_;
  agent::SignalState signals_;
  std::vector<std::string> defaults_;
};

}  // namespace muster::launcher
