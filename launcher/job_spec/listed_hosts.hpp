// SPDX-License-Identifier: Apache-2.0
// The hosts of a list that somebody asks, without a job.
#pragma once

#include "launcher/core/node_plan.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

/// Reads a list of hosts as `muster run -H` takes it, and finds out which of them is this machine. Slots
/// count for nothing. Throws UsageError.
std::vector<NodePlan> listed_hosts(const std::string& list);

}  // namespace muster::launcher
