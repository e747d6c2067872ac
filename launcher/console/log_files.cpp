// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/log_files.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
using Take = std::function<void(const std::vector<ConsoleRecord>&)>;

constexpr std::size_t kLogPieceBytes = std::size_t{64} << 10;

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

bool read_one(const std::string& path, const ConsoleRecord& pattern, const Take& take) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));

  struct stat status {};

  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  std::string piece(kLogPieceBytes, '\0');
  for (;;) {
    const ssize_t size = ::read(file.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return true;
    take(records_of({piece.data(), static_cast<std::size_t>(size)}, pattern));
  }
}

}  // namespace

bool read_log_files(const std::string& log_dir, const RecordFilter& filter, const Take& take) {
  using Stream = ConsoleRecord::Stream;
  bool found = false;
  for (const auto& [round, of_round] : numbered_folders(log_dir, "attempt_"))
    for (const auto& [rank, of_rank] : numbered_folders(of_round, "")) {
      ConsoleRecord pattern;
      pattern.round = round;
      pattern.rank = rank;
      if (!filter.wants(pattern)) continue;
      for (const Stream stream : {Stream::out, Stream::err}) {
        pattern.stream = stream;
        const bool is_there =
            read_one(of_rank + (stream == Stream::out ? "/stdout.log" : "/stderr.log"), pattern, take);
        found = found || is_there;
      }
    }
  return found;
}

}  // namespace muster::launcher
