// SPDX-License-Identifier: Apache-2.0
// Makes the command that starts the agent of one node of an allocation, and says what srun's complaints mean.
// Pure.
#pragma once

#include "launcher/start/core/ssh_failure.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

/// Returns srun, its options, and a shell that runs `command` (remote_command()). There is one srun for each
/// node: srun copies its stdin to every task, and what goes there is for one node only. Throws
/// std::invalid_argument for a node name that would be an option or a list.
std::vector<std::string> srun_arguments(const std::string& node, const std::string& command);

/// Whether srun would read this variable of the allocation as an option of its own ("SLURM_NTASKS"): it is
/// taken from the environment of the srun, because an agent is one task that may use all of its node.
bool is_srun_option(std::string_view variable);

/// Says why there is no agent on `node`.
StartFailure explain_srun(const StartEnd& end, const std::string& node, const std::string& version_here);

}  // namespace muster::launcher
