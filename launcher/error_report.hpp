// SPDX-License-Identifier: Apache-2.0
// Says on stderr why a command could not do its work.
#pragma once

#include <functional>

namespace muster::launcher {

/// Returns what `command` returns; where it throws, prints why after "muster: error: ", and returns the exit
/// code for that.
int with_errors_reported(const std::function<int()>& command);

}  // namespace muster::launcher
