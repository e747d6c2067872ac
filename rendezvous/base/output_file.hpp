// SPDX-License-Identifier: Apache-2.0
// Where a file goes that a user named for output: symbolic links stay, and devices are never replaced.
#pragma once

#include <sys/types.h>

#include <string>

namespace muster {

struct OutputPlace {
  /// The path behind all symbolic links: what a whole new file may be renamed to.
  std::string path;
  /// There is a regular file, or nothing yet. Otherwise it is a terminal, another device for characters, a
  /// pipe, or a file that a process has open (/dev/stdout): bytes can be written there, and nothing may be
  /// renamed to it.
  bool is_file = true;
  /// Why nothing can be written there, in words: "Is a directory". Empty where this is not known to fail.
  std::string obstacle;
};

/// Follows the symbolic links of `path`. A block device and a socket are obstacles: nobody means them.
OutputPlace find_output(const std::string& path);

/// The same for a file that is written as a whole: all that is there and no regular file is an obstacle.
OutputPlace find_output_file(const std::string& path);

/// What stands against writing to something of this type (st_mode), in words; empty for a file, a device for
/// characters, and a pipe.
std::string output_obstacle(mode_t type);

}  // namespace muster
