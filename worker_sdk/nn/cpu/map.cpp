// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/map.hpp"

#include <sys/mman.h>

#include <new>

namespace muster::nn::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Buffer::~Buffer() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

std::size_t Buffer::whole_pages(std::size_t bytes) {
  const std::size_t page = bytes < kHugePage ? 4096 : kHugePage;
  return (bytes + page - 1) / page * page;
}

void Buffer::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  bytes = whole_pages(bytes);
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  ::madvise(data, bytes, MADV_HUGEPAGE);
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = data;
  bytes_ = bytes;
}

}  // namespace muster::nn::cpu
