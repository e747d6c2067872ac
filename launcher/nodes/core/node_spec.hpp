// SPDX-License-Identifier: Apache-2.0
// Makes one node's part of the job. Pure.
#pragma once

#include "agent/core/agent_spec.hpp"
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

}  // namespace muster::launcher
