// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/output_file.hpp"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace muster {
namespace {

namespace fs = std::filesystem;

/// The number of symbolic links that are followed in a row, the same as in the kernel.
constexpr int kMostLinks = 40;

/// Whether `link` lies in /proc. Links there lead to what a process has open, and their texts need not be
/// paths.
bool is_in_proc(const fs::path& link) {
  struct statfs status {};

  const fs::path folder = link.has_parent_path() ? link.parent_path() : fs::path(".");
  return statfs(folder.c_str(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

OutputPlace refused(const std::string& path, int error) {
  return {path, true, std::strerror(error)};
}

}  // namespace

std::string output_obstacle(mode_t type) {
  if (S_ISDIR(type)) return std::strerror(EISDIR);
  if (S_ISBLK(type)) return "Is a block device";
  if (S_ISSOCK(type)) return "Is a socket";
  return "";
}

OutputPlace find_output(const std::string& path) {
  struct stat status {};

  if (stat(path.c_str(), &status) != 0 && errno != ENOENT) return refused(path, errno);
  fs::path place = path;
  bool is_open_file = false;
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code error;
    const fs::path target = fs::read_symlink(place, error);
    if (error) break;
    is_open_file = is_in_proc(place);
    if (is_open_file) break;
    place = place.parent_path() / target;
  }
  if (stat(place.c_str(), &status) != 0) {
    if (errno != ENOENT) return refused(path, errno);
    return {place, true, ""};
  }
  return {place, S_ISREG(status.st_mode) && !is_open_file, output_obstacle(status.st_mode)};
}

OutputPlace find_output_file(const std::string& path) {
  OutputPlace place = find_output(path);
  if (place.is_file || !place.obstacle.empty()) return place;

  struct stat status {};

  const mode_t type = stat(path.c_str(), &status) == 0 ? status.st_mode : 0;
  place.obstacle = S_ISFIFO(type)  ? "Is a pipe"
                   : S_ISREG(type) ? "Is a file that a process has open"
                                   : "Is a device";
  return place;
}

}  // namespace muster
