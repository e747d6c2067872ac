// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/log_directory.hpp"

#include "launcher/core/launch_error.hpp"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace muster::launcher {
namespace {

constexpr std::size_t kMaxIdLength = 64;

LaunchError cannot_make(const std::string& path, bool temporary, int error) {
  return LaunchError(kExitLauncherFailure,
                     "the log directory '" + path + "' cannot be made (" + std::strerror(error) + "); " +
                         (temporary ? "set TMPDIR or give --log-dir with" : "give --log-dir with") +
                         " a directory that can be written, or /dev/null for no log files");
}

/// Makes a path absolute: workers may change their directory and still have to find their error file.
std::string absolute(const std::string& path) {
  if (path.starts_with('/')) return path;
  char* current = getcwd(nullptr, 0);  // grows as needed
  if (current == nullptr) return path;
  const std::string result = std::string(current) + "/" + path;
  free(current);
  return result;
}

/// Makes every missing parent of `path`, and the directory itself, as mkdir -p does.
void make_directories(const std::string& path, bool temporary) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) throw cannot_make(part, temporary, errno);
    if (end == std::string::npos) return;
  }
}

}  // namespace

std::string file_name_of(const std::string& text) {
  std::string name = text.substr(0, kMaxIdLength);
  for (char& c : name) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.';
    if (!kept) c = '_';
  }
  if (name.empty() || name[0] == '.') name = "_" + name;
  return name;
}

LogDirectory plan_log_directory(const std::string& log_dir, const std::string& temporary_base,
                                const std::string& run_id) {
  if (log_dir == "/dev/null") return {};
  const bool temporary = log_dir.empty();
  std::string base = temporary ? (temporary_base.empty() ? "/tmp" : temporary_base) : log_dir;
  while (base.size() > 1 && base.back() == '/') base.pop_back();
  if (base == "/") base.clear();
  return {base + "/" + (temporary ? "muster_" : "") + file_name_of(run_id) + "_XXXXXX", temporary};
}

std::string create_log_directory(const LogDirectory& planned) {
  if (planned.path.empty()) return "";
  const std::string pattern = absolute(planned.path);
  std::string path = pattern;
  if (mkdtemp(path.data()) != nullptr) return path;
  if (errno != ENOENT) throw cannot_make(planned.path, planned.temporary, errno);
  make_directories(pattern.substr(0, pattern.rfind('/')), planned.temporary);
  path = pattern;  // mkdtemp leaves the template undefined when it fails
  if (mkdtemp(path.data()) == nullptr) throw cannot_make(planned.path, planned.temporary, errno);
  return path;
}

}  // namespace muster::launcher
