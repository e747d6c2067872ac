// SPDX-License-Identifier: Apache-2.0
// One node's part of the job, and what the job needs of its nodes. Pure.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/link_message.hpp"
#include "agent/core/link_text.hpp"
#include "launcher/core/job_spec.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::launcher {

/// Makes the specification for the agent of `node`. `hellos` holds what the nodes said of themselves, in the
/// order of job.nodes, and an empty one for each node that has not answered or is gone. Only the
/// coordinator's node needs those of other nodes. Throws LaunchError if the host has none of what its workers
/// are counted by.
agent::AgentSpec spec_for(const JobSpec& job, std::size_t node, const std::vector<agent::NodeHello>& hellos,
                          std::uint64_t incarnation);

/// Returns the message that brings the specification to its node. Throws std::length_error if it is too long
/// for one.
agent::LinkMessage spec_message(const agent::AgentSpec& spec);

/// Returns how many nodes the job cannot do without: with one number of nodes instead of a range, every host
/// that was listed.
std::size_t needed_nodes(const JobSpec& job);

/// Whether the loss of a node that is not needed leaves the job another round.
bool may_restart(const JobSpec& job);

}  // namespace muster::launcher
