// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/log_files.hpp"

#include "agent/core/output/log_rotation.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

namespace muster::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLogPieceBytes = std::size_t{64} << 10;
/// Files that stay open between two looks, so that what is written before they are removed is still read.
/// More than that are opened each time.
constexpr std::size_t kOpenMost = 512;
/// Files of a bounded size, each in the place of the one before it, that are read before those of other ranks
/// have their turn.
constexpr int kTurnsMost = 16;

/// Returns the folders whose names are a number behind `before`, by that number.
std::map<int, std::string> numbered_folders(const std::string& folder, std::string_view before) {
  std::map<int, std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(before)) continue;
    if (const auto number = parse_number<int>(std::string_view(name).substr(before.size())))
      found.emplace(*number, entry->path());
  }
  return found;
}

/// Cuts a piece of a file into records; the last one goes on in the next piece unless a newline ends it.
std::vector<ConsoleRecord> records_of(std::string_view piece, const ConsoleRecord& pattern) {
  std::vector<ConsoleRecord> records;
  while (!piece.empty()) {
    const std::size_t newline = piece.find('\n');
    ConsoleRecord record = pattern;
    record.ends_line = newline != std::string_view::npos;
    record.text = piece.substr(0, newline);
    piece.remove_prefix(record.text.size() + (record.ends_line ? 1 : 0));
    records.push_back(std::move(record));
  }
  return records;
}

/// Opens a regular file, and nothing else.
UniqueFd open_log(const std::string& path, struct stat& status) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return file;
}

/// Reads from `at` on to the end, and moves `at` there.
void read_on(int fd, std::int64_t& at, const ConsoleRecord& pattern, const LogFiles::Take& take) {
  std::string piece(kLogPieceBytes, '\0');
  for (;;) {
    const ssize_t size = ::pread(fd, piece.data(), piece.size(), at);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    at += size;
    take(records_of({piece.data(), static_cast<std::size_t>(size)}, pattern));
  }
}

}  // namespace

LogFiles::LogFiles(std::string log_dir, RecordFilter filter)
    : log_dir_(std::move(log_dir)), filter_(std::move(filter)) {}

void LogFiles::read(const Take& take) {
  look_for_files();
  for (auto& [key, file] : files_) {
    read_one(key, file, take);
    if (files_.size() > kOpenMost) file.fd.reset();
  }
  std::erase_if(files_, [this](const auto& entry) { return std::get<0>(entry.first) < newest_round_; });
}

void LogFiles::look_for_files() {
  const int oldest = newest_round_;
  for (const auto& [round, of_round] : numbered_folders(log_dir_, "attempt_")) {
    if (round < oldest) continue;
    newest_round_ = std::max(newest_round_, round);
    for (const auto& [rank, of_rank] : numbered_folders(of_round, "")) {
      add({round, rank, Stream::out}, of_rank + "/stdout.log");
      add({round, rank, Stream::err}, of_rank + "/stderr.log");
    }
  }
}

void LogFiles::add(const Key& key, std::string path) {
  ConsoleRecord pattern;
  std::tie(pattern.round, pattern.rank, pattern.stream) = key;
  const RecordFilter at_any_time{filter_.ranks, filter_.round, {}};
  if (files_.contains(key) || !at_any_time.wants(pattern)) return;

  struct stat status {};

  UniqueFd fd = open_log(path, status);
  if (!fd) return;
  found_ = true;
  File file{std::move(path), std::move(fd), status.st_ino};
  if (is_older(status)) {
    file.at = status.st_size;
  } else {
    file.earlier = open_log(file.path + std::string(agent::kRotatedSuffix), status);
    if (file.earlier && (status.st_ino == file.inode || is_older(status))) file.earlier.reset();
  }
  files_.emplace(key, std::move(file));
}

bool LogFiles::is_older(const struct stat& status) const {
  const std::int64_t written_at_ms =
      std::int64_t{status.st_mtim.tv_sec} * 1000 + status.st_mtim.tv_nsec / 1'000'000;
  return filter_.since_ms && written_at_ms < *filter_.since_ms;
}

/// Under the name that it has now; where it has none any more, the one that has come after it.
void LogFiles::open_again(File& file) {
  const std::string earlier = file.path + std::string(agent::kRotatedSuffix);

  struct stat status {};

  for (const std::string& path : {file.path, earlier}) {
    file.fd = open_log(path, status);
    if (file.fd && status.st_ino == file.inode) return;
  }
  if (!file.fd) file.fd = open_log(file.path, status);
  file.inode = status.st_ino;
  file.at = 0;
}

void LogFiles::read_one(const Key& key, File& file, const Take& take) {
  ConsoleRecord pattern;
  std::tie(pattern.round, pattern.rank, pattern.stream) = key;
  std::int64_t from_the_start = 0;
  if (file.earlier) read_on(file.earlier.get(), from_the_start, pattern, take);
  file.earlier.reset();
  if (!file.fd) open_again(file);
  for (int turn = 0; file.fd && turn < kTurnsMost; ++turn) {
    read_on(file.fd.get(), file.at, pattern, take);

    struct stat status {};

    if (::lstat(file.path.c_str(), &status) != 0 || status.st_ino == file.inode) return;
    // What was written before another file got the name.
    read_on(file.fd.get(), file.at, pattern, take);
    const ino_t read_before = file.inode;
    file.fd = open_log(file.path, status);
    file.inode = status.st_ino;
    file.at = 0;
    read_between(file, read_before, pattern, take);
  }
}

/// Reads the file that has begun and ended since the last look, if there was one.
void LogFiles::read_between(const File& file, ino_t read_before, const ConsoleRecord& pattern,
                            const Take& take) {
  struct stat status {};

  const UniqueFd between = open_log(file.path + std::string(agent::kRotatedSuffix), status);
  std::int64_t at = 0;
  if (between && status.st_ino != read_before && status.st_ino != file.inode)
    read_on(between.get(), at, pattern, take);
}

}  // namespace muster::launcher
