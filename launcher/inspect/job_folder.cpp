// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/job_folder.hpp"

#include "launcher/inspect/job_client.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace muster::launcher {
namespace {

constexpr std::size_t kJobsMax = 4096;
/// Each lister of jobs removes an empty folder once: more of them in a row than this there are not.
constexpr int kMakeTries = 100;

std::string reason(int error) {
  return std::generic_category().message(error);
}

/// Says in `trouble` what failed, and why. Leaves errno.
bool fails(const std::string& what, std::string& trouble) {
  const int error = errno;
  trouble = what + ": " + reason(error);
  errno = error;
  return false;
}

void remove_folder(const std::string& path) {
  for (const char* name : {"/socket", "/card.new", "/card"}) ::unlink((path + name).c_str());
  ::rmdir(path.c_str());
}

LauncherLife look_at_launcher(const FoundJob& job, const LauncherLook& here) {
  LauncherLook look = here;
  look.start_time = start_time_of(job.card.pid);
  return launcher_life(job.card, look);
}

}  // namespace

std::string folder_of_jobs() {
  return "/tmp/muster-" + std::to_string(::geteuid());
}

bool is_ours_alone(const std::string& path, std::string& trouble) {
  struct stat status {};

  if (::lstat(path.c_str(), &status) != 0) return fails(path, trouble);
  errno = EPERM;
  if (!S_ISDIR(status.st_mode))
    trouble = path + " is no directory; remove it";
  else if (status.st_uid != ::geteuid())
    trouble = path + " belongs to user " + std::to_string(status.st_uid) + "; have it removed";
  else if ((status.st_mode & 077U) != 0)
    trouble = path + " can be entered by others; run 'chmod 700 " + path + "'";
  else
    return true;
  return false;
}

bool make_in_folder(const std::string& folder, std::string& trouble, const std::function<bool()>& make) {
  for (int tries = 0; tries < kMakeTries; ++tries) {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      return fails(folder + " cannot be made", trouble);
    if (is_ours_alone(folder, trouble) && make()) return true;
    if (errno != ENOENT) return false;
  }
  return false;
}

std::optional<JobFolder> JobFolder::make(const std::string& base, const std::string& id,
                                         std::string& trouble) {
  const std::string path = base + "/" + id;
  if (!make_in_folder(base, trouble, [&] {
        return ::mkdir(path.c_str(), 0700) == 0 || fails(path + " cannot be made", trouble);
      }))
    return std::nullopt;
  return JobFolder(path);
}

JobFolder::~JobFolder() {
  if (path_.empty()) return;
  remove_folder(path_);
  ::rmdir(path_.substr(0, path_.rfind('/')).c_str());
}

bool JobFolder::publish(const JobCard& card) const {
  const std::string fresh = path_ + "/card.new";
  const UniqueFd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  return file && write_all(file.get(), to_json(card)) &&
         ::rename(fresh.c_str(), (path_ + "/card").c_str()) == 0;
}

std::vector<FoundJob> find_jobs(const std::string& base, std::string& trouble, std::size_t* removed) {
  namespace fs = std::filesystem;
  std::vector<FoundJob> jobs;

  struct stat status {};

  if (::lstat(base.c_str(), &status) != 0 && errno == ENOENT) return jobs;
  if (!is_ours_alone(base, trouble)) return jobs;
  const LauncherLook here{boot_id(), own_pid_namespace(), 0};
  std::error_code error;
  for (fs::directory_iterator entry(base, error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path();
    const auto text = read_file(path + "/card", kCardBytesMax, O_NOFOLLOW | O_NONBLOCK);
    if (!text) continue;  // a job that begins or ends
    try {
      FoundJob job{job_card_from_json(*text), path + "/socket"};
      const LauncherLife life = look_at_launcher(job, here);
      if (life == LauncherLife::gone) {
        remove_folder(path);
        if (removed != nullptr) ++*removed;
      }
      // Of one in another pid namespace only its socket tells; what it left is not ours to remove.
      if (life == LauncherLife::there || (life == LauncherLife::unknown && is_listening(job.socket)))
        jobs.push_back(std::move(job));
    } catch (const std::invalid_argument& wrong) {
      trouble = path + ": " + wrong.what() + "; remove that folder";
    }
    if (jobs.size() == kJobsMax) break;
  }
  if (error) trouble = base + ": " + error.message();
  ::rmdir(base.c_str());  // if nothing is left in it
  std::sort(jobs.begin(), jobs.end(), [](const FoundJob& one, const FoundJob& other) {
    return std::pair(one.card.started_at_ms, one.card.id) <
           std::pair(other.card.started_at_ms, other.card.id);
  });
  return jobs;
}

}  // namespace muster::launcher
