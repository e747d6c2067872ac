// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/socket.h>

namespace muster::rendezvous {

/// A descriptor held in reserve, so that a connection can be turned away when all others are in use.
class SpareDescriptor {
 public:
  SpareDescriptor() { reopen(); }

  /// Takes the connection that waits longest at `listener` and closes it; false if it could not.
  bool accept_and_close(int listener) {
    fd_.reset();
    fd_.reset(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    const bool taken = static_cast<bool>(fd_);
    fd_.reset();
    reopen();
    return taken;
  }

 private:
  void reopen() { fd_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  UniqueFd fd_;
};

}  // namespace muster::rendezvous
