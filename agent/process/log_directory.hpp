// SPDX-License-Identifier: Apache-2.0
// The directory for the logs of a node that another host started: nobody but the node can remove it.
#pragma once

#include <string>

namespace muster::agent {

/// A node's own part of the job's log directory: hosts may share their file system.
std::string node_log_directory(const std::string& log_dir, const std::string& node);

/// Makes a directory and those above it that are missing, for our user only. No word about failures: what
/// matters is whether it can be used.
void make_directory_path(const std::string& path);

/// Removes the empty directories in this one, it, and the one above it, but what holds a file. Never a file.
void remove_empty_log_directory(const std::string& path);

}  // namespace muster::agent
