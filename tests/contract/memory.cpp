// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace muster::contract {
namespace {

constexpr std::size_t kPageBytes = 4096;
/// Bytes before a buffer, and between it and the page behind it, that must keep their value.
constexpr std::size_t kMarginBytes = 64;
constexpr std::byte kMargin{0xA5};

}  // namespace

class HostMemory::Pages {
 public:
  explicit Pages(std::size_t bytes)
      : bytes_((bytes + kMarginBytes + kPageBytes - 1) / kPageBytes * kPageBytes) {
    void* const base =
        mmap(nullptr, bytes_ + kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::runtime_error("mmap of a test's buffer");
    base_ = static_cast<std::byte*>(base);
    mprotect(base_ + bytes_, kPageBytes, PROT_NONE);
  }

  ~Pages() { munmap(base_, bytes_ + kPageBytes); }

  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  bool fits(std::size_t bytes) const { return bytes + kMarginBytes <= bytes_; }

  std::byte* end() const { return base_ + bytes_; }

 private:
  std::size_t bytes_;
  std::byte* base_;
};

namespace {

template <typename Pages>
class GuardedBuffer : public Buffer {
 public:
  GuardedBuffer(std::shared_ptr<Pages> pages, std::size_t bytes, std::size_t shift)
      : pages_(std::move(pages)), bytes_(bytes), shift_(shift), data_(pages_->end() - shift - bytes) {
    std::memset(data_ - kMarginBytes, static_cast<int>(kMargin), kMarginBytes);
    std::memset(data_ + bytes_, static_cast<int>(kMargin), shift_);
  }

  std::byte* data() override { return data_; }

  void write(const Bytes& bytes) override {
    if (bytes.size() != bytes_) throw std::logic_error("a test writes another size");
    if (bytes_ > 0) std::memcpy(data_, bytes.data(), bytes_);
  }

  Bytes read() override { return Bytes(data_, data_ + bytes_); }

  bool is_intact() override {
    const auto kept = [](std::byte value) { return value == kMargin; };
    return std::all_of(data_ - kMarginBytes, data_, kept) &&
           std::all_of(data_ + bytes_, data_ + bytes_ + shift_, kept);
  }

 private:
  std::shared_ptr<Pages> pages_;
  std::size_t bytes_;
  std::size_t shift_;
  std::byte* data_;
};

}  // namespace

void Memory::write(void* place, const Bytes& bytes) {
  if (!bytes.empty()) std::memcpy(place, bytes.data(), bytes.size());
}

Bytes Memory::read(const void* place, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(place);
  return Bytes(begin, begin + bytes);
}

HostMemory::HostMemory() = default;
HostMemory::~HostMemory() = default;

std::unique_ptr<Buffer> HostMemory::make(std::size_t bytes, std::size_t shift) {
  for (const auto& pages : pages_)
    if (pages.use_count() == 1 && pages->fits(bytes + shift))
      return std::make_unique<GuardedBuffer<Pages>>(pages, bytes, shift);
  pages_.push_back(std::make_shared<Pages>(bytes + shift));
  return std::make_unique<GuardedBuffer<Pages>>(pages_.back(), bytes, shift);
}

}  // namespace muster::contract
