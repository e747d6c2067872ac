// SPDX-License-Identifier: Apache-2.0
// The bodies of tree frames that are JSON. Pure.
#pragma once

#include "launcher/start/core/ssh_failure.hpp"
#include "launcher/start/core/start_tree.hpp"

#include <string>

namespace muster::launcher {

std::string to_json(const BranchPlan& plan);
/// Throws std::invalid_argument: no JSON, fields missing or of another type, no node, or a node that does not
/// come after its parent.
BranchPlan branch_plan_from_json(const std::string& text);

std::string to_json(const StartEnd& end);
/// Throws std::invalid_argument.
StartEnd start_end_from_json(const std::string& text);

}  // namespace muster::launcher
