// SPDX-License-Identifier: Apache-2.0
// Files that a process has mapped into its memory, as it sees them.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <sys/types.h>

#include <string>
#include <string_view>

namespace muster::agent {

/// Opens a plain file of at most 1 GiB, since its sections are copied into our memory. `path` is as in
/// `maps`, the text of /proc/PID/maps: the file may be in another mount namespace, or removed. Of removed
/// files everybody may open the program itself; for libraries the kernel wants CAP_CHECKPOINT_RESTORE. Empty
/// if it cannot be opened.
UniqueFd open_mapped_file(pid_t pid, std::string_view maps, std::string_view path);

/// Finds the absolute path below `root`, where symbolic links lead to places below it, too, and not into our
/// own namespace (openat2(2)). Before Linux 5.6 a link to a folder may, and one to the file is not followed.
/// Returns a descriptor of O_PATH; empty, with errno, if there is nothing.
UniqueFd find_below(const std::string& root, const std::string& path);

}  // namespace muster::agent
