// SPDX-License-Identifier: Apache-2.0
// Buffers for the contract's calls: on the host between pages that cannot be touched, or on a device.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace muster::contract {

using Bytes = std::vector<std::byte>;

class Buffer {
 public:
  Buffer() = default;
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Never null, also for 0 bytes.
  virtual std::byte* data() = 0;
  /// Fills all of it; `bytes` has its size.
  virtual void write(const Bytes& bytes) = 0;
  virtual Bytes read() = 0;

  /// Whether the bytes around it are as they were.
  virtual bool is_intact() { return true; }
};

class Memory {
 public:
  Memory() = default;
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// `shift`: bytes by which the address is off the alignment that it would have.
  virtual std::unique_ptr<Buffer> make(std::size_t bytes, std::size_t shift = 0) = 0;

  /// Memory that the group's allocate() gave.
  virtual void write(void* place, const Bytes& bytes);
  virtual Bytes read(const void* place, std::size_t bytes);
};

/// Each buffer ends (shift bytes) before a page that cannot be touched.
class HostMemory : public Memory {
 public:
  HostMemory();
  ~HostMemory() override;
  std::unique_ptr<Buffer> make(std::size_t bytes, std::size_t shift = 0) override;

 private:
  class Pages;

  std::vector<std::shared_ptr<Pages>> pages_;  ///< used again by later buffers
};

}  // namespace muster::contract
