// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/core/given_text.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

/// SLURM_JOB_NODELIST: "n[00-15,20],login1,rack[1-2]-n[0-3]", in Slurm's order. Throws UsageError with the
/// place.
std::vector<std::string> expand_node_list(const GivenText& given);

}  // namespace muster::launcher
