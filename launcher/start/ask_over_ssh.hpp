// SPDX-License-Identifier: Apache-2.0
// Runs a command of muster on other hosts, over ssh as `muster run` starts its agents, and takes what it
// prints.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/core/node_plan.hpp"
#include "launcher/start/core/ssh_failure.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace muster::launcher {

/// What is asked, and who takes the answers. Hosts are numbers: places in the list of hosts.
struct HostQuestions {
  /// How the hosts are reached; RemoteOptions::remote_words is the command.
  RemoteOptions options;
  /// Ours.
  std::string version;
  /// What a host needs for its answer after the login.
  std::chrono::milliseconds at_most{0};
  /// Takes what the command has printed; throws std::invalid_argument for what is no answer.
  std::function<void(std::size_t host, const std::string& out)> take;
  /// Is told why there is no answer.
  std::function<void(std::size_t host, const StartFailure& why)> fail;
};

/// Asks those hosts of `hosts` that `places` names, 32 at a time, each batch for the login's time and
/// HostQuestions::at_most. Throws LaunchError.
void ask_over_ssh(const std::vector<NodePlan>& hosts, const std::vector<std::size_t>& places,
                  const HostQuestions& questions, const agent::SignalState& signals);

}  // namespace muster::launcher
