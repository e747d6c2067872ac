// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/ended_folder.hpp"

#include "launcher/inspect/job_folder.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace muster::launcher {
namespace {

/// Files that are looked at; more than that nobody of ours makes.
constexpr std::size_t kFilesMost = 4096;
/// So many more than kEndedMost may lie there: a job that ends looks only at their number as a rule.
constexpr std::size_t kEndedMore = 32;

struct File {
  std::string path;
  std::int64_t written_at_ms = 0;
};

std::string folder_below(const std::string& base) {
  return base + "/ended";
}

/// Whether both folders are this user's alone.
bool is_usable(const std::string& base) {
  std::string trouble;
  return is_ours_alone(base, trouble) && is_ours_alone(folder_below(base), trouble);
}

/// Returns the files of the records, the oldest first.
std::vector<File> files_below(const std::string& base) {
  namespace fs = std::filesystem;
  std::vector<File> files;
  if (!is_usable(base)) return files;
  std::error_code error;
  for (fs::directory_iterator entry(folder_below(base), error), end; !error && entry != end;
       entry.increment(error)) {
    if (files.size() == kFilesMost) break;
    const std::string path = entry->path();

    struct stat status {};

    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    files.push_back({path, status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1'000'000});
  }
  std::sort(files.begin(), files.end(), [](const File& one, const File& other) {
    return std::pair(one.written_at_ms, one.path) < std::pair(other.written_at_ms, other.path);
  });
  return files;
}

/// Whether there are more files than may lie there, without a look at any of them.
bool is_full(const std::string& base) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::size_t count = 0;
  for (fs::directory_iterator entry(folder_below(base), error), end;
       !error && entry != end && count <= kEndedMost + kEndedMore; entry.increment(error))
    ++count;
  return count > kEndedMost + kEndedMore;
}

/// Writes a file that others see whole or not at all. False, with errno, if it cannot be written.
bool write_whole(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  const UniqueFd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return false;
  if (write_all(file.get(), text) && ::rename(fresh.c_str(), path.c_str()) == 0) return true;
  const int error = errno;
  ::unlink(fresh.c_str());
  errno = error;
  return false;
}

}  // namespace

void keep_ended(const std::string& base, const EndedJob& job, std::int64_t now_ms) {
  const std::string path = folder_below(base) + "/" + job.card.id;
  const std::string text = to_json(job);
  std::string trouble;
  const auto write = [&] { return write_whole(path, text); };
  const auto write_below = [&] { return make_in_folder(folder_below(base), trouble, write); };
  if (!make_in_folder(base, trouble, write_below) || !is_full(base)) return;
  const std::vector<File> files = files_below(base);
  for (std::size_t i = 0; i < files.size(); ++i)
    if (i + kEndedMost < files.size() || is_over(files[i].written_at_ms, now_ms))
      ::unlink(files[i].path.c_str());
}

std::vector<EndedJob> find_ended(const std::string& base, std::int64_t now_ms) {
  std::vector<EndedJob> jobs;
  for (const File& file : files_below(base)) {
    const auto text = read_file(file.path, kEndedBytesMax, O_NOFOLLOW | O_NONBLOCK);
    if (!text || is_over(file.written_at_ms, now_ms)) continue;
    try {
      jobs.push_back(ended_job_from_json(*text));
    } catch (const std::invalid_argument&) {
      continue;  // of another version, or half written by one that was killed
    }
  }
  std::stable_sort(jobs.begin(), jobs.end(), [](const EndedJob& one, const EndedJob& other) {
    return one.ended_at_ms < other.ended_at_ms;
  });
  if (jobs.size() > kEndedMost) jobs.erase(jobs.begin(), jobs.end() - kEndedMost);
  return jobs;
}

std::size_t remove_ended(const std::string& base) {
  std::size_t removed = 0;
  for (const File& file : files_below(base)) removed += ::unlink(file.path.c_str()) == 0 ? 1U : 0U;
  ::rmdir(folder_below(base).c_str());
  ::rmdir(base.c_str());  // if nothing is left in it
  return removed;
}

}  // namespace muster::launcher
