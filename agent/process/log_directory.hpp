// SPDX-License-Identifier: Apache-2.0
// The directory for the logs of a node that another host started: nobody but the node can remove it.
#pragma once

#include <string>

namespace muster::agent {

/// Returns a node's own part of the job's log directory, since hosts may share their file system.
std::string node_log_directory(const std::string& log_dir, const std::string& node);

/// Makes a directory and those above it that are missing, for our user only. Failures are not reported,
/// because all that matters is whether the directory can be used.
void make_directory_path(const std::string& path);

/// Removes a directory, those in it, and the one above it, as far as they are empty. Never removes a file.
void remove_empty_log_directory(const std::string& path);

}  // namespace muster::agent
