// SPDX-License-Identifier: Apache-2.0
// Starts agents through the system's SSH client, one for each host.
#pragma once

#include "launcher/start/client_starter.hpp"
#include "launcher/start/core/ssh_command.hpp"

namespace muster::launcher {

class SshStarter : public ClientStarter {
 public:
  SshStarter(const std::vector<NodePlan>& nodes, const RemoteOptions& options, std::string version,
             const agent::SignalState& signals);

  std::string server(std::size_t node) const override;
  StartFailure explain(std::size_t node, const StartEnd& end) const override;
  std::vector<std::string> arguments(std::size_t node) const override;

 private:
  SshTarget target(std::size_t node) const;

  SshClient client_;
  int default_port_ = 0;
};

}  // namespace muster::launcher
