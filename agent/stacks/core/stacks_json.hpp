// SPDX-License-Identifier: Apache-2.0
// Stacks as JSON, as reports and answers hold them. For sources that write or read JSON.
#pragma once

#include "agent/stacks/core/process_stacks.hpp"

#include <nlohmann/json.hpp>

namespace muster::agent {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Frame, file, line, function)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ThreadStack, tid, is_main, holds_gil, approximate, truncated, frames)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProcessStacks, pid, python, threads, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProcessPicture, name, state, stacks)

}  // namespace muster::agent
