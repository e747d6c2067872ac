// SPDX-License-Identifier: Apache-2.0
// Ranks that fail together fail for one reason: one of them says it.
#pragma once

#include "worker_sdk/world/world.hpp"

#include <exception>
#include <string>

namespace muster::examples {

/// One line on stderr, and the error file for the agent's report. With a world of several ranks only the
/// first that comes writes the line; the others come back when it has. Before there is a world (null), each
/// rank speaks for itself.
void report(const std::exception& error, const std::string& error_file, World* world);

/// Reports a wrong command line on stderr, and returns the exit code. The ranks of a host have the same one:
/// the first of them says it and the launcher then ends the others; they speak only if that does not happen.
int report_usage(const std::string& text);

}  // namespace muster::examples
