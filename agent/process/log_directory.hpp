// SPDX-License-Identifier: Apache-2.0
// The directory for the logs of a node that another host started: nobody but the node can remove it.
#pragma once

#include "agent/core/agent_spec.hpp"

#include <string>

namespace muster::agent {

/// Returns a node's own part of the job's log directory, since hosts may share their file system.
std::string node_log_directory(const std::string& log_dir, const std::string& node);

/// Makes a directory and those above it that are missing, for our user only. Failures are not reported,
/// because all that matters is whether the directory can be used.
void make_directory_path(const std::string& path);

/// A node that was started from elsewhere has ended: removes what is empty of its log directory where that is
/// a temporary one, and all of it if nobody needs it (`succeeded`: the job did, and the launcher knows). The
/// launcher removes such a directory on its own host only. The guardian removes one without files, too, where
/// this process could not.
void leave_log_directory(const OutputSpec& output, bool succeeded);

/// Removes a node's part of a job's log directory, with the directories in it, and the one above it, as far
/// as they are empty. Never removes a file.
void remove_empty_log_directory(const std::string& path);

/// Removes a directory and those in it, as far as they are empty. Never removes a file.
void remove_empty_directories(const std::string& path);

}  // namespace muster::agent
