// SPDX-License-Identifier: Apache-2.0
// How a thread wakes another one that polls.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>

namespace muster {

/// An eventfd by which one thread wakes another. Empty, with errno, where no descriptor is left; then nobody
/// is woken.
class WakeUp {
 public:
  WakeUp() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  explicit operator bool() const { return static_cast<bool>(fd_); }

  /// The descriptor to poll; it is readable between signal() and clear().
  int fd() const { return fd_.get(); }

  /// Makes the descriptor readable. Any thread.
  void signal() const {
    // Any other error means that the event is signalled already.
    while (::eventfd_write(fd_.get(), 1) != 0 && errno == EINTR) {
    }
  }

  void clear() const {
    eventfd_t count = 0;
    (void)::eventfd_read(fd_.get(), &count);
  }

 private:
  UniqueFd fd_;
};

}  // namespace muster
