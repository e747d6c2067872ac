// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/posix.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

namespace muster {

void throw_errno(const std::string& what, int error) {
  throw std::system_error(error, std::generic_category(), what);
}

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::optional<std::string> read_to_end(int fd, std::size_t limit) {
  std::string text;
  char piece[16384];
  while (text.size() < limit) {
    const ssize_t count = ::read(fd, piece, std::min(sizeof piece, limit - text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    text.append(piece, static_cast<std::size_t>(count));
  }
  return text;
}

std::optional<std::string> read_file(const std::string& path, std::size_t limit, int flags) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!file) return std::nullopt;
  return read_to_end(file.get(), limit);
}

}  // namespace muster
