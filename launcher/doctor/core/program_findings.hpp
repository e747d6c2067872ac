// SPDX-License-Identifier: Apache-2.0
// Judges what of a host programs are made of: Python, PyTorch, GPUs, NCCL, cuDNN. Pure.
#pragma once

#include "launcher/doctor/core/findings.hpp"

#include <vector>

namespace muster::launcher {

/// Returns the findings "Python", "torch", "GPUs", "NCCL" and "cuDNN".
std::vector<Finding> judge_programs(const HostFacts& facts);

/// Compares versions by the numbers in them: negative if `one` is the older, 0 if the first `parts` numbers
/// are the same.
int compare_versions(const std::string& one, const std::string& other, int parts);

}  // namespace muster::launcher
