// SPDX-License-Identifier: Apache-2.0
// Starts agents inside an allocation of Slurm, with one srun for each node.
#pragma once

#include "launcher/start/client_starter.hpp"

namespace muster::launcher {

class SrunStarter : public ClientStarter {
 public:
  /// The names of `nodes` are those of Slurm.
  SrunStarter(const std::vector<NodePlan>& nodes, const RemoteOptions& options, std::string version,
              const agent::SignalState& signals);

  /// slurmd lets everybody of its job in.
  std::string server(std::size_t node) const override;
  StartFailure explain(std::size_t node, const StartEnd& end) const override;
  std::vector<std::string> arguments(std::size_t node) const override;

 private:
  /// `env -u NAME ...`: what an srun must not read.
  std::vector<std::string> without_options_;
};

}  // namespace muster::launcher
