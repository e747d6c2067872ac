// SPDX-License-Identifier: Apache-2.0
#include "agent/process/stop_file.hpp"

#include "agent/process/temporary_directory.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/log/log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace muster::agent {
namespace {

constexpr const char* kStopName = "/stop";
/// Where the text is written before the file appears.
constexpr const char* kFreshStopName = "/stop.new";

}  // namespace

std::string new_stop_folder() {
  char digits[17] = {};
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(random_number()));
  return temporary_directory() + "/muster_stop_" + digits;
}

void remove_stop_folder(const std::string& folder) {
  if (folder.empty()) return;
  for (const char* name : {kStopName, kFreshStopName}) ::unlink((folder + name).c_str());
  ::rmdir(folder.c_str());
}

StopFile::~StopFile() {
  remove_stop_folder(folder_);
}

void StopFile::make(const std::string& folder) {
  if (folder.empty()) return;
  if (::mkdir(folder.c_str(), 0700) != 0) {
    log_info("workers have no MUSTER_STOP_FILE: the folder '" + folder + "' cannot be made (" +
             std::generic_category().message(errno) + "); see TMPDIR");
    return;
  }
  folder_ = folder;
  path_ = folder + kStopName;
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
