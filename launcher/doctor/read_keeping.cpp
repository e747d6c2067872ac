// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/read_keeping.hpp"

#include "launcher/inspect/job_folder.hpp"
#include "rendezvous/base/posix.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

namespace muster::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kConfigurationMax = std::size_t{64} << 10;
/// A job that begins has a folder without a card for some milliseconds.
constexpr std::time_t kOldAfterSeconds = 60;

bool is_old(const std::string& path, std::time_t now) {
  struct stat status {};

  return ::lstat(path.c_str(), &status) == 0 && now - status.st_mtime > kOldAfterSeconds;
}

/// Whether a folder holds nothing but what a launcher puts into that of its job.
bool is_of_a_job(const std::string& path) {
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name != "card" && name != "card.new" && name != "socket") return false;
  }
  return !error;
}

std::vector<std::string> old_folders(const std::string& base, const std::vector<FoundJob>& jobs) {
  std::vector<std::string> old;
  const std::time_t now = std::time(nullptr);
  std::error_code error;
  for (fs::directory_iterator entry(base, error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path();
    const bool runs = std::any_of(jobs.begin(), jobs.end(),
                                  [&path](const FoundJob& job) { return job.socket == path + "/socket"; });
    if (!runs && entry->path().filename() != "ended" && is_old(path, now) && is_of_a_job(path))
      old.push_back(path);
    if (old.size() == kOldFoldersMax) break;
  }
  std::sort(old.begin(), old.end());
  return old;
}

/// Returns logind's configuration, in the order in which it counts: the main file, then those of the drop-in
/// folders by name, where one of /etc stands for one of the same name elsewhere.
std::vector<std::string> logind_files() {
  std::vector<std::string> texts;
  std::error_code error;
  if (!fs::exists("/run/systemd/users", error)) return texts;  // it does not run
  std::map<std::string, std::string> paths;
  for (const char* folder :
       {"/usr/lib/systemd/logind.conf.d", "/run/systemd/logind.conf.d", "/etc/systemd/logind.conf.d"})
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
      if (entry->path().extension() == ".conf") paths[entry->path().filename()] = entry->path();
  for (const char* file : {"/etc/systemd/logind.conf", "/usr/lib/systemd/logind.conf"})
    if (auto text = read_file(file, kConfigurationMax)) {
      texts.push_back(std::move(*text));
      break;
    }
  for (const auto& [name, path] : paths) texts.push_back(read_file(path, kConfigurationMax).value_or(""));
  return texts;
}

bool user_lingers() {
  std::array<char, 16384> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return false;
  std::error_code error;
  return fs::exists(std::string("/var/lib/systemd/linger/") + found->pw_name, error);
}

}  // namespace

KeepingFacts read_keeping(const std::string& jobs) {
  KeepingFacts facts;
  const std::vector<FoundJob> running = find_jobs(jobs, facts.folder_trouble);
  if (facts.folder_trouble.empty()) facts.old_folders = old_folders(jobs, running);
  facts.kill_user_processes = kill_user_processes_of(logind_files());
  facts.lingers = user_lingers();
  return facts;
}

}  // namespace muster::launcher
