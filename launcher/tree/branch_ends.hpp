// SPDX-License-Identifier: Apache-2.0
// What a host that starts others does before it has a loop: its login's ends, and its own node.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/start/started_process.hpp"
#include "rendezvous/support/unique_fd.hpp"

#include <string>

namespace muster::launcher {

/// One of the login's ends, away from where a stray print would end up in it. Throws std::system_error.
UniqueFd take_away(int fd, int flags);

/// Workers get no way to the user's ssh-agent: it was meant for our logins. The agent's stderr is a pipe to
/// us: as long as anybody holds the login's own, sshd does not tell the other end that we are gone. Throws
/// std::system_error.
StartedProcess fork_own_node(const std::string& version, const agent::SignalState& signals);

}  // namespace muster::launcher
