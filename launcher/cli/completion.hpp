// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/core/launch_error.hpp"

#include <string>

namespace muster::launcher {

/// Returns a script that lets a shell complete muster's commands, flags and jobs, made from the tables of
/// commands and flags. `shell` is --print-completion: bash, zsh or fish, else UsageError.
std::string completion_script(const GivenText& shell);

}  // namespace muster::launcher
