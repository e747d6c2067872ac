// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace muster::launcher {

/// 'muster show FILE': prints the report that 'muster run --report FILE' has written, for people. Returns the
/// exit code; throws UsageError, and LaunchError (125) where the file cannot be read or is no report.
int show_command(const std::vector<std::string>& arguments);

}  // namespace muster::launcher
