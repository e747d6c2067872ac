// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/nccl/segment.hpp"

#include "tests/fakes/cuda/fake_cuda.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace fake {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSharedBytes = (sizeof(Shared) + kPage - 1) / kPage * kPage;
constexpr std::size_t kBytes = kSharedBytes + kMaxRanks * kAreaBytes;

}  // namespace

// The file is sparse and begins as zeros, which is the first state of everything in it.
Segment::Segment(const std::string& name) {
  const std::string path = folder() + "/" + name;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, kBytes) != 0) std::abort();
  memory_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory_ == MAP_FAILED) std::abort();
}

Segment::~Segment() {
  munmap(memory_, kBytes);
}

std::byte* Segment::area(int rank) const {
  return static_cast<std::byte*>(memory_) + kSharedBytes + static_cast<std::size_t>(rank) * kAreaBytes;
}

}  // namespace fake
