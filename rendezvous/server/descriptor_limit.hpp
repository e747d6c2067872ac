// SPDX-License-Identifier: Apache-2.0
// The process's limit of open descriptors, and how a listener behaves at it.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

namespace muster::rendezvous {

/// Raises the soft limit of open descriptors to the hard one: many ranks need many connections and pipes, and
/// the soft limit is often 1,024. Call before a StoreServer is made. Programs that are started for a user get
/// the old limit back.
inline void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// The soft limit of open descriptors, at most 2^30.
inline int descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 1U << 30U) return 1 << 30;
  return static_cast<int>(limit.rlim_cur);
}

/// A descriptor held in reserve, with which a connection can be turned away when all others are in use.
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
