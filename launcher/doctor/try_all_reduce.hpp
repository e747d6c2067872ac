// SPDX-License-Identifier: Apache-2.0
// Tries a short all_reduce across hosts, as a job of `muster run`.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/core/node_plan.hpp"
#include "launcher/doctor/core/findings.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace muster::launcher {

/// Returns the finding "all_reduce" of the hosts that `reports` are of: a note with the reason where they
/// cannot try one. `run_flags` say how `muster run` reaches them, `python` is the interpreter's path. Takes
/// kAllReduceAtMost, the login and some seconds at most; the job leaves nothing behind.
Finding try_all_reduce(const std::vector<NodePlan>& hosts, const std::vector<HostReport>& reports,
                       const std::vector<std::string>& run_flags, std::chrono::milliseconds login_timeout,
                       const std::string& python, const agent::SignalState& signals);

}  // namespace muster::launcher
