// SPDX-License-Identifier: Apache-2.0
// Random bytes and numbers from the kernel's generator.
#pragma once

#include "rendezvous/base/posix.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace muster {

/// Fills `size` bytes at `place` from the kernel's generator, which is good enough for keys. Waits while a
/// machine that has just started has no randomness yet. Throws std::system_error where the kernel has no
/// getrandom or a filter forbids it.
inline void fill_random(void* place, std::size_t size) {
  auto* const bytes = static_cast<std::byte*>(place);
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t count = ::getrandom(bytes + filled, size - filled, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw_errno("the kernel gives no random bytes; Linux 3.17 or newer with getrandom is needed");
    filled += static_cast<std::size_t>(count);
  }
}

/// A number of 64 random bits. std::random_device is not used anywhere, because a static libstdc++ makes it
/// need the newest glibc (arc4random, 2.36), and programs shall run on older ones. Throws as fill_random().
inline std::uint64_t random_number() {
  std::uint64_t number = 0;
  fill_random(&number, sizeof number);
  return number;
}

}  // namespace muster
