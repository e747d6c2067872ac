// SPDX-License-Identifier: Apache-2.0
// What commands write to stdout.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::launcher {

/// Prints to stdout what a program may read, and returns the exit code for success: a closed or full stdout
/// is a failure, not silence. Throws LaunchError.
int print(const std::string& text);

/// Writes to stdout what it takes of a text, once it takes something, and returns how much that is; 0 when
/// the descriptor `interrupt` is readable first. Throws LaunchError (125) if stdout will take nothing any
/// more.
std::size_t write_some(std::string_view text, int interrupt);

/// Writes all of it. Throws Interrupted (inspect/job_client.hpp) where `interrupt` is readable and stdout
/// takes nothing, and LaunchError.
void write_out(std::string_view text, int interrupt);

}  // namespace muster::launcher
