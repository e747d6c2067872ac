// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/console_follower.hpp"

#include "launcher/console/core/console_files.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/inspect/job_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace muster::launcher {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
/// More than a line of ours has; the rest of a longer one is passed over.
constexpr std::size_t kLineMost = std::size_t{1} << 20;

/// Returns where the last `lines` lines of a file begin, and takes those that it has off `lines`.
off_t begin_of_last(int fd, std::size_t& lines) {
  off_t end = ::lseek(fd, 0, SEEK_END);
  std::string piece(kPieceBytes, '\0');
  bool at_end = true;
  while (end > 0) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(kPieceBytes));
    const ssize_t size = ::pread(fd, piece.data(), static_cast<std::size_t>(end - begin), begin);
    if (size <= 0) break;
    for (auto i = static_cast<std::size_t>(size); i > 0; --i) {
      if (piece[i - 1] != '\n') {
        at_end = false;
        continue;
      }
      // The newline at the very end belongs to the last line.
      if (std::exchange(at_end, false)) continue;
      if (--lines == 0) return begin + static_cast<off_t>(i);
    }
    end = begin;
  }
  if (!at_end) --lines;
  return 0;
}

}  // namespace

ConsoleFollower::ConsoleFollower(const std::string& folder) : folder_path_(folder) {
  constexpr int kNotThere = 3;
  folder_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder_)
    throw LaunchError(kNotThere, "the console of the job cannot be read: " + folder + ": " +
                                     std::generic_category().message(errno));
  if (std::string trouble; !is_ours_alone(folder, trouble))
    throw LaunchError(kExitLauncherFailure, "the console of the job is not to be trusted: " + trouble);
}

void ConsoleFollower::go_to_last(std::size_t records) {
  std::vector<std::uint64_t> all = numbers();
  if (records == 0) {
    if (!all.empty() && open_file(all.back())) ::lseek(file_.get(), 0, SEEK_END);
    return;
  }
  for (auto number = all.rbegin(); number != all.rend() && records > 0; ++number) {
    if (!open_file(*number)) return;
    ::lseek(file_.get(), begin_of_last(file_.get(), records), SEEK_SET);
  }
}

bool ConsoleFollower::read(std::vector<ConsoleRecord>& records) {
  if (number_ == 0) {
    const std::vector<std::uint64_t> all = numbers();
    if (all.empty() || !open_file(all.front())) return false;
  }
  if (read_piece(records)) return true;
  return next_file(records);
}

std::vector<std::uint64_t> ConsoleFollower::numbers() const {
  std::vector<std::uint64_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_path_, error), end; !error && entry != end;
       entry.increment(error))
    if (const auto number = console_file_number(entry->path().filename().string())) found.push_back(*number);
  std::sort(found.begin(), found.end());
  return found;
}

bool ConsoleFollower::open_file(std::uint64_t number) {
  UniqueFd file(::openat(folder_.get(), console_file_name(number).c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));

  struct stat status {};

  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  file_ = std::move(file);
  number_ = number;
  held_.clear();
  return true;
}

bool ConsoleFollower::read_piece(std::vector<ConsoleRecord>& records) {
  const std::size_t before = held_.size();
  held_.resize(before + kPieceBytes);
  ssize_t size = 0;
  do {
    size = ::read(file_.get(), held_.data() + before, kPieceBytes);
  } while (size < 0 && errno == EINTR);
  held_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(0, size)));
  if (size < 0)
    throw LaunchError(kExitLauncherFailure, "the console of the job cannot be read: " + folder_path_ + ": " +
                                                std::generic_category().message(errno));
  if (size == 0) return false;
  take_lines(records);
  return true;
}

bool ConsoleFollower::next_file(std::vector<ConsoleRecord>& records) {
  const std::vector<std::uint64_t> all = numbers();
  const auto next = std::upper_bound(all.begin(), all.end(), number_);
  if (next == all.end()) return false;
  // The next file began after the last byte of this one was written.
  if (read_piece(records)) return true;
  const bool gap = *next != number_ + 1;
  if (!open_file(*next)) return false;  // it was dropped just now
  if (!gap) return true;
  ConsoleRecord lost;
  lost.stream = ConsoleRecord::Stream::lost;
  records.push_back(std::move(lost));
  return true;
}

void ConsoleFollower::take_lines(std::vector<ConsoleRecord>& records) {
  std::size_t begin = 0;
  for (std::size_t end = held_.find('\n'); end != std::string::npos; end = held_.find('\n', begin)) {
    if (auto record = parse_record(std::string_view(held_).substr(begin, end - begin)))
      records.push_back(std::move(*record));
    begin = end + 1;
  }
  held_.erase(0, begin);
  if (held_.size() > kLineMost) held_.clear();
}

}  // namespace muster::launcher
