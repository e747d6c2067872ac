// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace muster::test {

/// Both ends are closed in programs that are executed.
struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category());
    read.reset(ends[0]);
    write.reset(ends[1]);
  }

  UniqueFd read;
  UniqueFd write;
};

/// What comes from `fd` until all that write to it have closed it.
inline std::string read_to_end(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

}  // namespace muster::test
