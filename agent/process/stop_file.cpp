// SPDX-License-Identifier: Apache-2.0
#include "agent/process/stop_file.hpp"

#include "agent/process/temporary_directory.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/log/log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace muster::agent {
namespace {

constexpr const char* kStopName = "/stop";
/// Where the text is written before the file appears.
constexpr const char* kFreshStopName = "/stop.new";

constexpr const char* kFolderPrefix = "muster_stop_";
/// So much of the boot's id tells one boot from another.
constexpr std::size_t kBootDigits = 8;

/// Whose folders can be judged here: boot and PID namespace, which every name of this process's own begins
/// with.
std::string own_prefix() {
  return kFolderPrefix + boot_id().substr(0, kBootDigits) + "-" + std::to_string(own_pid_namespace()) + "-";
}

/// With what programs have made there: the sockets and pipes of their flight recorders.
void remove_stop_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    ::unlink(entry->path().c_str());
  ::rmdir(folder.c_str());
}

bool is_own_directory(const std::string& path) {
  struct stat status {};

  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
}

/// Whether the process that a name with `prefix` names has ended. False for a name of another form.
bool maker_has_ended(const std::string& name, const std::string& prefix) {
  int pid = 0;
  std::uint64_t start_time = 0;
  if (!name.starts_with(prefix)) return false;
  if (std::sscanf(name.c_str() + prefix.size(), "%d.%" SCNu64 "-", &pid, &start_time) != 2) return false;
  const std::uint64_t now = start_time_of(pid);
  return now == 0 || now != start_time;
}

}  // namespace

std::string new_stop_folder() {
  char digits[17] = {};
  std::snprintf(digits, sizeof digits, "%016" PRIx64, random_number());
  return temporary_directory() + "/" + own_prefix() + std::to_string(::getpid()) + "." +
         std::to_string(start_time_of(::getpid())) + "-" + digits;
}

std::size_t remove_left_stop_folders() {
  namespace fs = std::filesystem;
  std::size_t removed = 0;
  if (boot_id().empty() || own_pid_namespace() == 0) return removed;
  const std::string prefix = own_prefix();
  std::error_code error;
  for (fs::directory_iterator entry(temporary_directory(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path();
    if (!maker_has_ended(entry->path().filename(), prefix) || !is_own_directory(path)) continue;
    remove_stop_folder(path);
    ++removed;
  }
  return removed;
}

StopFile::~StopFile() {
  if (!folder_.empty()) remove_stop_folder(folder_);
}

void StopFile::make(std::string folder) {
  if (::mkdir(folder.c_str(), 0700) != 0) {
    log_info("workers have no MUSTER_STOP_FILE: the folder '" + folder + "' cannot be made (" +
             std::generic_category().message(errno) + "); see TMPDIR");
    return;
  }
  folder_ = std::move(folder);
  path_ = folder_ + kStopName;
}

void StopFile::appear(const std::string& text) {
  if (path_.empty() || there_ || text.empty()) return;
  const std::string fresh = folder_ + kFreshStopName;
  const UniqueFd file(
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!file) {
    log_info("MUSTER_STOP_FILE cannot be written: " + std::generic_category().message(errno));
    return;
  }
  static_cast<void>(write_all(file.get(), text));
  there_ = ::rename(fresh.c_str(), path_.c_str()) == 0;
}

void StopFile::vanish() {
  if (there_) ::unlink(path_.c_str());
  there_ = false;
}

}  // namespace muster::agent
