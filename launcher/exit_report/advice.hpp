// SPDX-License-Identifier: Apache-2.0
// What to do about the failure of a worker. Pure.
#pragma once

#include "agent/core/node_report.hpp"

#include <string>

namespace muster::launcher {

/// Returns what to do about the end of `root`, a worker of `node` that runs `program`; empty where its own
/// words say it.
std::string advice_for(const agent::NodeReport& node, const agent::WorkerReport& root,
                       const std::string& program);

}  // namespace muster::launcher
