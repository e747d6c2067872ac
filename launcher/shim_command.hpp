// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace muster::launcher {

/// Whether we were called by the name of torchrun, which makes us `muster run`.
bool called_as_torchrun(const char* name);

/// 'muster install-shim DIR': makes DIR/torchrun a link to this program. Returns the exit code; throws
/// UsageError, and LaunchError where the link cannot be made or something else has its name.
int install_shim_command(const std::vector<std::string>& arguments);

}  // namespace muster::launcher
