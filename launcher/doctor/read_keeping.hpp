// SPDX-License-Identifier: Apache-2.0
// Reads what earlier jobs have left on this host, and what ends a user's processes.
#pragma once

#include "launcher/doctor/core/host_facts.hpp"

#include <string>

namespace muster::launcher {

/// `jobs` is the folder of all jobs (folder_of_jobs()). A folder in it that holds what jobs have there or
/// nothing, is no running job's, and has not changed for a minute, is an old one.
KeepingFacts read_keeping(const std::string& jobs);

}  // namespace muster::launcher
