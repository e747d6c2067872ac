// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/cli/cli_options.hpp"

#include <string>

namespace muster::launcher {

/// A bash completion script for `muster`, made from the flag table. `shell` is --print-completion; any other
/// shell throws UsageError.
std::string completion_script(const GivenText& shell);

}  // namespace muster::launcher
