// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::launcher {

/// Prints to stdout what a program may read, and returns the exit code for success: a closed or full stdout
/// is a failure, not silence. Throws LaunchError.
int print(const std::string& text);

}  // namespace muster::launcher
