// SPDX-License-Identifier: Apache-2.0
// `muster attach`: follows a detached job as its own terminal would.
#pragma once

#include <string>
#include <vector>

namespace muster::launcher {

/// `arguments` is what stands behind `muster attach`. Returns the exit code of the job, or 0 when it is left
/// running. Throws LaunchError.
int attach_command(const std::vector<std::string>& arguments);

}  // namespace muster::launcher
