// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/record_writer.hpp"

#include "launcher/console/core/console_files.hpp"
#include "launcher/console/core/console_record.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>

namespace muster::launcher {
namespace {

/// Writes as much as the file takes; returns how much that is.
std::size_t write_some(int fd, std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t size = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    done += static_cast<std::size_t>(size);
  }
  return done;
}

}  // namespace

std::int64_t RecordWriter::write(std::string_view lines) {
  if (!has_file(lines.size())) return lines_in(lines);
  if (is_cut_ && write_some(file_.get(), "\n") == 0) return lines_in(lines);
  is_cut_ = false;
  const std::size_t done = write_some(file_.get(), lines);
  size_ += done;
  is_cut_ = done > 0 && done < lines.size() && lines[done - 1] != '\n';
  return lines_in(lines.substr(done));
}

bool RecordWriter::has_file(std::size_t more) {
  if (file_ && !begins_next_file(size_, more)) return true;
  const std::uint64_t next = number_ + 1;
  const std::string name = console_file_name(next);
  UniqueFd file(
      ::openat(folder_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  // The present file grows where there is no room for another one, as in a folder that was removed.
  if (!file) return file_ && may_grow(size_, more);
  file_ = std::move(file);
  number_ = next;
  size_ = 0;
  is_cut_ = false;
  if (const auto dropped = dropped_file(number_)) ::unlinkat(folder_, console_file_name(*dropped).c_str(), 0);
  return true;
}

}  // namespace muster::launcher
