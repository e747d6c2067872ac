// SPDX-License-Identifier: Apache-2.0
// How a helper thread tells the agent's thread that something has changed.
#pragma once

#include "rendezvous/support/unique_fd.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace muster::agent {

/// An eventfd. The threads share its ownership, so that one that is abandoned in a blocked write can still
/// use it when it comes back, long after the executor is gone.
class WakeUp {
 public:
  WakeUp() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_) throw std::system_error(errno, std::generic_category(), "eventfd for the workers' output");
  }

  int fd() const { return fd_.get(); }

  /// Any thread.
  void signal() const {
    const std::uint64_t one = 1;
    // Fails only when it is signalled already.
    [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
  }

  void clear() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &count, sizeof count);
  }

 private:
  UniqueFd fd_;
};

}  // namespace muster::agent
