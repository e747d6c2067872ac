// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/process_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace muster::agent {
namespace {

constexpr std::size_t kPartsMax = 8;

bool reaches_beyond(std::uint64_t begin, std::uint64_t bytes, std::uint64_t most) {
  return begin > most || bytes > most - begin;
}

}  // namespace

bool ProcessMemory::read_parts(std::span<const MemoryPart> parts) {
  iovec local[kPartsMax];
  iovec remote[kPartsMax];
  if (parts.size() > kPartsMax || expired()) return false;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (reaches_beyond(parts[i].address, parts[i].bytes, UINTPTR_MAX)) return false;
    local[i] = {parts[i].into, parts[i].bytes};
    // It is an address of the other process, and no pointer here.
    remote[i] = {reinterpret_cast<void*>(static_cast<std::uintptr_t>(parts[i].address)), parts[i].bytes};
    bytes += parts[i].bytes;
  }
  const ssize_t count = ::process_vm_readv(pid_, local, parts.size(), remote, parts.size(), 0);
  if (count < 0 && (errno == EPERM || errno == ESRCH || errno == ENOSYS)) refusal_ = errno;
  return count >= 0 && static_cast<std::size_t>(count) == bytes;
}

bool FileBytes::read_parts(std::span<const MemoryPart> parts) {
  for (const MemoryPart& part : parts) {
    if (expired() || reaches_beyond(part.address, part.bytes, INT64_MAX)) return false;
    std::size_t done = 0;
    while (done < part.bytes) {
      const ssize_t count = ::pread(fd_, static_cast<char*>(part.into) + done, part.bytes - done,
                                    static_cast<off_t>(part.address + done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      done += static_cast<std::size_t>(count);
    }
  }
  return true;
}

}  // namespace muster::agent
