// SPDX-License-Identifier: Apache-2.0
// `muster doctor`: whether hosts are fit for jobs.
#pragma once

#include "agent/process/signal_state.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

/// Returns the exit code: 1 if a problem was found. Throws LaunchError.
int doctor_command(const std::vector<std::string>& arguments, const agent::SignalState& at_start);

}  // namespace muster::launcher
