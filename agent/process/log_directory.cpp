// SPDX-License-Identifier: Apache-2.0
#include "agent/process/log_directory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

namespace muster::agent {

namespace fs = std::filesystem;

std::string node_log_directory(const std::string& log_dir, const std::string& node) {
  return log_dir + "/" + node;
}

void make_directory_path(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    ::mkdir(path.substr(0, end).c_str(), 0700);
    if (end == std::string::npos) return;
  }
}

void leave_log_directory(const OutputSpec& output, bool succeeded) {
  if (!output.log_dir_is_temporary || output.log_dir.empty()) return;
  std::error_code ignored;
  if (succeeded) fs::remove_all(output.log_dir, ignored);
  remove_empty_log_directory(output.log_dir);
}

void remove_empty_log_directory(const std::string& path) {
  remove_empty_directories(path);
  ::rmdir(fs::path(path).parent_path().c_str());
}

void remove_empty_directories(const std::string& path) {
  std::vector<fs::path> directories = {path};
  std::error_code error;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error))
    if (fs::is_directory(entry->symlink_status(error))) directories.push_back(entry->path());
  for (auto directory = directories.rbegin(); directory != directories.rend(); ++directory)
    ::rmdir(directory->c_str());
}

}  // namespace muster::agent
