// SPDX-License-Identifier: Apache-2.0
// Asks an interpreter what it is, and which PyTorch it has.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/doctor/core/host_facts.hpp"

#include <string>

namespace muster::launcher {

/// Starts `program` (a name or a path) and reads its answer, at most kPythonAtMost. PyTorch is not imported,
/// which takes seconds: only its file of versions is read. `named`: the user named it.
PythonFacts read_python(const std::string& program, bool named, const agent::SignalState& signals);

}  // namespace muster::launcher
