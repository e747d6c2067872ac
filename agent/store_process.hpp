// SPDX-License-Identifier: Apache-2.0
// What every process that serves a store begins with.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "rendezvous/server/embedded_daemon.hpp"

namespace muster::agent {

/// In a process that is to serve the store: gives it its name, leaves it deaf to signals for the whole job,
/// and returns what it serves as the job wants it. `control_fd` is its end of the connection with the agent.
rendezvous::EmbeddedOptions begin_store_process(const AgentSpec& spec, int control_fd);

/// The user's input and output must not stay open because of a process that does not use them.
void drop_standard_input_and_output();

}  // namespace muster::agent
