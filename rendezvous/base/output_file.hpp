// SPDX-License-Identifier: Apache-2.0
// Where a file goes that a user named for output: symbolic links stay, and devices are never replaced.
#pragma once

#include <sys/types.h>

#include <string>

namespace muster {

struct OutputPlace {
  /// The path behind all symbolic links, to which a whole new file may be renamed.
  std::string path;
  /// Whether a regular file is there, or nothing yet. Otherwise it is a terminal, another character device, a
  /// pipe, or a file that a process has open (/dev/stdout): bytes can be written there, and nothing may be
  /// renamed to it.
  bool is_file = true;
  /// Why nothing can be written there, in words: "Is a directory". Empty where no reason is known.
  std::string obstacle;
};

/// Follows the symbolic links of `path`. A block device and a socket are obstacles, because nobody wants
/// output there.
OutputPlace find_output(const std::string& path);

/// Does the same for a file that is written as a whole: whatever is there and is no regular file is an
/// obstacle.
OutputPlace find_output_file(const std::string& path);

/// Why nothing can be written to a file of this type (st_mode), in words; empty for a regular file, a
/// character device and a pipe.
std::string output_obstacle(mode_t type);

}  // namespace muster
