// SPDX-License-Identifier: Apache-2.0
// Which files of a process may hold an interpreter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::agent {

/// The first mapping of a file.
struct MappedFile {
  std::uint64_t start = 0;
  /// Which byte of the file is at `start`.
  std::uint64_t offset = 0;
  std::uint64_t inode = 0;
  /// As the process sees it.
  std::string path;
  /// As the kernel writes it, for /proc/PID/map_files: "7f0000000000-7f0000001000".
  std::string range;
  /// Whether the file was removed or replaced since.
  bool deleted = false;
};

/// Most files that are looked at.
inline constexpr std::size_t kCandidatesMax = 8;

/// Reads the text of /proc/PID/maps (proc(5)). Returns the files called libpython*, then the executable,
/// whose path is `executable`, each once. Lines that make no sense are left out.
std::vector<MappedFile> python_candidates(const std::string& maps, const std::string& executable);

}  // namespace muster::agent
