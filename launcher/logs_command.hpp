// SPDX-License-Identifier: Apache-2.0
// `muster logs`: what a job has printed.
#pragma once

#include <string>
#include <vector>

namespace muster::launcher {

/// `arguments` is what stands behind `muster logs`. Returns the exit code. Throws LaunchError.
int logs_command(const std::vector<std::string>& arguments);

}  // namespace muster::launcher
