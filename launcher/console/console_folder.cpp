// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/console_folder.hpp"

#include "launcher/console/core/console_files.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/inspect/core/ended_job.hpp"
#include "launcher/inspect/job_folder.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

namespace muster::launcher {
namespace {

namespace fs = std::filesystem;

/// Folders that are looked at; more than that nobody of ours makes.
constexpr std::size_t kFoldersMost = 4096;
constexpr const char* kCard = "/card";

[[noreturn]] void fail(const std::string& path, int error) {
  throw LaunchError(kExitLauncherFailure, "the console of the job cannot be kept in " + path + " (" +
                                              std::generic_category().message(error) +
                                              "); give --log-dir with a directory that can be written");
}

std::string variable(const char* name) {
  const char* const value = ::secure_getenv(name);
  // A relative path would depend on where a command is called.
  return value != nullptr && value[0] == '/' ? value : "";
}

/// Returns the card in a folder of ours; nullopt if it is none.
std::optional<JobCard> card_in(const std::string& folder) {
  std::string ignored;
  if (!is_ours_alone(folder, ignored)) return std::nullopt;
  const auto text = read_file(folder + kCard, kCardBytesMax, O_NOFOLLOW | O_NONBLOCK);
  if (!text) return std::nullopt;
  try {
    return job_card_from_json(*text);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

/// Returns when something in a folder was written last, in milliseconds since 1970.
std::int64_t written_at_ms(const std::string& folder) {
  std::int64_t last = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    struct stat status {};

    if (::lstat(entry->path().c_str(), &status) == 0)
      last = std::max<std::int64_t>(last, status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1'000'000);
  }
  return last;
}

/// Removes what we put into such a folder, and the folder if nothing else is in it.
bool remove_console(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths{folder + kCard};
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (console_file_number(entry->path().filename().string())) paths.push_back(entry->path());
  for (const std::string& path : paths) ::unlink(path.c_str());
  return ::rmdir(folder.c_str()) == 0;
}

}  // namespace

std::string folder_of_consoles() {
  if (const std::string state = variable("XDG_STATE_HOME"); !state.empty()) return state + "/muster";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.local/state/muster";
}

NewConsoleFolder::NewConsoleFolder(const std::string& base, const std::string& id, bool base_is_ours)
    : path_(base + "/" + id) {
  try {
    for (std::size_t end = base.find('/', 1); end != std::string::npos; end = base.find('/', end + 1))
      make(base.substr(0, end), 0777);
    make(base, base_is_ours ? 0700 : 0777);
    if (std::string trouble; base_is_ours && !is_ours_alone(base, trouble))
      throw LaunchError(kExitLauncherFailure, "the console of the job cannot be kept: " + trouble);
    if (::mkdir(path_.c_str(), 0700) != 0) fail(path_, errno);
    made_.push_back(path_);
  } catch (...) {
    remove();
    throw;
  }
}

void NewConsoleFolder::make(const std::string& path, unsigned mode) {
  if (::mkdir(path.c_str(), mode) == 0)
    made_.push_back(path);
  else if (errno != EEXIST)
    fail(path, errno);
}

void NewConsoleFolder::remove() const {
  if (!made_.empty() && made_.back() == path_) remove_console(path_);
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) ::rmdir(path->c_str());
}

void write_console_card(const std::string& folder, const JobCard& card) {
  const std::string path = folder + kCard;
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file || !write_all(file.get(), to_json(card))) fail(path, errno);
}

std::vector<FoundConsole> find_consoles(const std::string& base) {
  std::vector<FoundConsole> found;
  std::string ignored;
  if (base.empty() || !is_ours_alone(base, ignored)) return found;
  const std::string host = host_name();
  std::error_code error;
  for (fs::directory_iterator entry(base, error), end; !error && entry != end && found.size() < kFoldersMost;
       entry.increment(error)) {
    const std::string path = entry->path();
    if (auto card = card_in(path); card && card->host == host.substr(0, host.find('.')))
      found.push_back({path, std::move(*card)});
  }
  std::sort(found.begin(), found.end(), [](const FoundConsole& one, const FoundConsole& other) {
    return std::tie(one.card.started_at_ms, one.folder) < std::tie(other.card.started_at_ms, other.folder);
  });
  return found;
}

std::size_t remove_old_consoles(const std::string& base, std::int64_t now_ms) {
  std::size_t removed = 0;
  LauncherLook look{boot_id(), own_pid_namespace(), 0};
  for (const FoundConsole& console : find_consoles(base)) {
    look.start_time = start_time_of(console.card.pid);
    if (launcher_life(console.card, look) != LauncherLife::gone) continue;
    if (is_over(written_at_ms(console.folder), now_ms) && remove_console(console.folder)) ++removed;
  }
  return removed;
}

}  // namespace muster::launcher
