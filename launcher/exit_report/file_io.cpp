// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_report/finish_job.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace muster::launcher {
namespace {

std::string words(int error) {
  return strerrordesc_np(error);
}

/// Empty on success.
std::string write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(fd, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return words(errno);
    done += static_cast<std::size_t>(count);
  }
  return "";
}

std::string write_directly(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return words(errno);
  const std::string failure = write_all(fd, text);
  close(fd);
  return failure;
}

/// umask can only be read by setting it; the launcher has one thread.
mode_t default_mode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

}  // namespace

std::string write_file(const std::string& path, const std::string& text) {
  struct stat status {};

  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return write_directly(path, text);
  std::string temporary = path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return words(errno);
  std::string failure = write_all(fd, text);
  if (fchmod(fd, default_mode()) != 0 && failure.empty()) failure = words(errno);
  if (close(fd) != 0 && failure.empty()) failure = words(errno);
  if (failure.empty() && rename(temporary.c_str(), path.c_str()) != 0) failure = words(errno);
  if (!failure.empty()) unlink(temporary.c_str());
  return failure;
}

std::string write_obstacle(const std::string& path) {
  struct stat status {};

  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    if (S_ISDIR(status.st_mode)) return words(EISDIR);
    return access(path.c_str(), W_OK) == 0 ? "" : words(errno);
  }
  std::string temporary = path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return words(errno);
  close(fd);
  unlink(temporary.c_str());
  return "";
}

}  // namespace muster::launcher
