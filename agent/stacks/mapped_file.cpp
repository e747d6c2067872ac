// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/mapped_file.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace muster::agent {
namespace {

constexpr off_t kFileBytesMax = off_t{1} << 30;
constexpr std::string_view kRemoved = " (deleted)";

/// Finds a file that has no name any more.
UniqueFd find_removed(const std::string& process, std::string_view maps, std::string_view path) {
  std::array<char, 4096> program{};
  const ssize_t length = ::readlink((process + "/exe").c_str(), program.data(), program.size());
  // The kernel adds the same words to this link.
  if (length > 0 && std::string_view(program.data(), static_cast<std::size_t>(length)) == path)
    return UniqueFd(::open((process + "/exe").c_str(), O_PATH | O_CLOEXEC));
  const std::size_t at = maps.find(" " + std::string(path) + "\n");
  if (at == std::string_view::npos) return {};
  const std::size_t line = maps.rfind('\n', at);
  const std::size_t begin = line == std::string_view::npos ? 0 : line + 1;
  const std::string range(maps.substr(begin, maps.find(' ', begin) - begin));
  return UniqueFd(::open((process + "/map_files/" + range).c_str(), O_PATH | O_CLOEXEC));
}

}  // namespace

UniqueFd find_below(const std::string& root, const std::string& path) {
  const UniqueFd folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return {};
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  UniqueFd found(static_cast<int>(::syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof how)));
  // EPERM: a container's filter that does not know the call.
  if (found || (errno != ENOSYS && errno != EPERM)) return found;
  return UniqueFd(::open((root + path).c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW));
}

UniqueFd open_mapped_file(pid_t pid, std::string_view maps, std::string_view path) {
  const std::string process = "/proc/" + std::to_string(pid);
  const UniqueFd place = path.ends_with(kRemoved) ? find_removed(process, maps, path)
                                                  : find_below(process + "/root", std::string(path));

  struct stat status {};

  // To open a device may do something, so nothing is opened before it is known to be a plain file.
  if (!place || ::fstat(place.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (status.st_size > kFileBytesMax) return {};
  return UniqueFd(::open(("/proc/self/fd/" + std::to_string(place.get())).c_str(),
                         O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

}  // namespace muster::agent
