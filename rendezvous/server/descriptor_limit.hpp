// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

namespace muster::rendezvous {

/// Raises the soft limit of open descriptors to the hard one: many ranks mean many connections and
/// pipes, and the soft limit is often 1,024. Call before a StoreServer is made. What is started for a user
/// gets the old limit back.
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

}  // namespace muster::rendezvous
