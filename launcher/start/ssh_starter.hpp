// SPDX-License-Identifier: Apache-2.0
// Starts agents through the system's SSH client, one for each host.
#pragma once

#include "launcher/start/client_starter.hpp"
#include "launcher/start/core/ssh_command.hpp"

#include <chrono>

namespace muster::launcher {

class SshStarter : public ClientStarter {
 public:
  SshStarter(const std::vector<NodePlan>& nodes, const RemoteOptions& options, std::string version,
             const agent::SignalState& signals);

  std::string server(std::size_t node) const override;
  StartFailure explain(std::size_t node, const StartEnd& end) const override;
  std::vector<std::string> arguments(std::size_t node) const override;

  const StartTree& tree() const override { return tree_; }

  BranchPlan branch(std::size_t node) const override;

 private:
  SshTarget target(std::size_t node) const;

  SshClient client_;
  int default_port_ = 0;
  std::chrono::milliseconds login_timeout_;
  bool push_ = false;
  StartTree tree_;
};

}  // namespace muster::launcher
